package goldenimages

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

// pool has two control planes: nodes and catalogs are cluster-scoped, so each test has one for itself.
var pool = planes.Pool{Size: 2}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, pool.Main)) }

// startWith starts a cluster with the chart and values of its own.
func startWith(t *testing.T, values map[string]any) *fixture {
	t.Helper()
	plane := pool.Take(t)
	f := &fixture{ControlPlane: plane, client: plane.Client()}
	must(t, plane.EnsureNamespace(t.Context(), namespace))
	_, err := plane.InstallVirtward(t.Context(), values, controlplane.Workload{})
	must(t, err)
	f.cdi = simulators.StartImporter(t.Context(), f.client, namespace)
	t.Cleanup(func() { must(t, f.cdi.Stop()) })
	f.process, err = plane.RunVirtward(t.Context(), controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardImages, Args: []string{controlplane.ShortLease},
	})
	must(t, err)
	return f
}

// as is a client of a user with a ClusterRole. A rule is its verbs, its group and its resources, in sequence.
func (f *fixture) as(t *testing.T, user string, rules ...string) client.Client {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "user-" + user}}
	for i := 0; i+2 < len(rules); i += 3 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: strings.Split(rules[i], ","), APIGroups: []string{rules[i+1]}, Resources: strings.Split(rules[i+2], ",")})
	}
	must(t, f.client.Create(t.Context(), role))
	must(t, f.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config, err := f.UserConfig(user)
	must(t, err)
	c, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	must(t, err)
	return c
}

// eventually waits until a condition holds.
func (f *fixture) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

// scrape reads the metrics of the process.
func (f *fixture) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	address := ""
	for _, argument := range f.process.Args() {
		if port, found := strings.CutPrefix(argument, "--metrics-address="); found {
			address = "http://127.0.0.1" + port + "/metrics"
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	must(t, err)
	must(t, response.Body.Close())
	return families
}

// passed is how often a controller has reconciled.
func (f *fixture) passed(t *testing.T, controller string) (total float64) {
	t.Helper()
	for _, sample := range f.scrape(t)["controller_runtime_reconcile_total"].GetMetric() {
		if slices.ContainsFunc(sample.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "controller" && l.GetValue() == controller }) {
			total += sample.GetCounter().GetValue()
		}
	}
	return total
}

// passes waits until a controller has reconciled more often than it had.
func (f *fixture) passes(t *testing.T, controller string, had float64) {
	t.Helper()
	f.eventually(t, "a pass of "+controller, func() bool { return f.passed(t, controller) > had })
}
