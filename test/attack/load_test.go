package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/soak"
)

// innocentWorkers are the creates of an innocent user at a time, crowdWorkers those beside an attack that the API server can
// hardly serve, where each takes long.
const (
	innocentWorkers = 3
	crowdWorkers    = 12
)

// innocentCreates are the creates before the first attack, and beside each. The percentiles of a soak need more of them.
func innocentCreates() int64 {
	if soak.On() {
		return 2000
	}
	return 300
}

// acceptable is the 99th percentile of a create during an attack that a soak accepts. It also accepts three times that of
// an idle cluster, and 1.3 times that beside the same attack without the webhooks.
const acceptable = 100 * time.Millisecond

// idle is the 99th percentile of a create without an attack.
var idle time.Duration

// beside measures the creates of an innocent user while an attack lasts, none of which may fail. A soak also measures
// them beside the same attack with Virtward's webhooks switched off for the attacker: that is what the API server itself
// spends on the attack. attack starts the attack, and returns what ends it and says how it went.
func beside(ctx context.Context, attack func() (end func() string)) {
	GinkgoHelper()
	besideCreates(ctx, innocentWorkers, innocentCreates(), attack)
}

// besideCreates is beside with a number of creates, so many of them at a time.
func besideCreates(ctx context.Context, workers int, creates int64, attack func() (end func() string)) {
	GinkgoHelper()
	before, began := cpuTime(virtward.PID()), time.Now()
	end := attack()
	p99 := servedBy(ctx, workers, creates)
	busy, lasted := cpuTime(virtward.PID())-before, time.Since(began)
	figures := fmt.Sprintf("p99 of a create: idle %s, attacked %s; attack: %s in %s; the webhook: %.1f cores, VmHWM %d MiB",
		idle.Round(time.Millisecond), p99.Round(time.Millisecond), end(), lasted.Round(time.Second), busy.Seconds()/lasted.Seconds(), peak(virtward.PID())>>20)
	allowed := max(3*idle, acceptable)
	if soak.On() {
		unchecked(ctx, func() {
			end := attack()
			without := servedBy(ctx, workers, creates)
			allowed = max(allowed, without*13/10)
			figures += fmt.Sprintf("; p99 with the webhooks off for the attacker %s; attack: %s", without.Round(time.Millisecond), end())
		})
	}
	AddReportEntry("figures", figures)
	Expect(peak(virtward.PID())).To(BeNumerically("<", containerLimit))
	if soak.On() {
		Expect(p99).To(BeNumerically("<=", allowed), figures)
	}
}

// served applies virtual machines as an innocent user until so many succeeded. None fails. It returns the 99th percentile
// of what a create takes.
func served(ctx context.Context, creates int64) time.Duration {
	GinkgoHelper()
	return servedBy(ctx, innocentWorkers, creates)
}

// servedBy is served with so many creates at a time.
func servedBy(ctx context.Context, workers int, creates int64) time.Duration {
	GinkgoHelper()
	l := startLoad(workers)
	l.until(ctx, creates)
	return l.stop()
}

// load is an innocent user who applies virtual machines, dry, while others attack.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// took is how long each create took.
	took []time.Duration
	// failed is the first create that did not succeed, failures how many did not.
	failed   error
	failures int
	applied  atomic.Int64
}

// startLoad begins to apply as alice, with some workers at once.
func startLoad(workers int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	innocent := rawClient("alice")
	for w := range workers {
		l.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body, err := json.Marshal(build.VMOf(build.Typical(fmt.Sprintf("innocent-%d-%d", w, i))).Obj())
				if err != nil {
					l.note(0, err)
					return
				}
				began := time.Now()
				// The client of Go repeats requests that are answered with 429. A user who has to wait for that is not served.
				err = innocent.Post().MaxRetries(0).RequestURI(innocentMachines).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
				if ctx.Err() != nil {
					return
				}
				if err != nil && machine.stopped(began) {
					continue
				}
				l.note(time.Since(began), err)
			}
		})
	}
	return l
}

func (l *load) note(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	if err != nil {
		if l.failures++; l.failed == nil {
			l.failed = err
		}
		return
	}
	l.applied.Add(1)
}

// until waits until the load has applied a number of VMs since it began.
func (l *load) until(ctx context.Context, n int64) {
	GinkgoHelper()
	Eventually(l.applied.Load).WithContext(ctx).WithTimeout(nodeTimeout).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", n))
}

// stop ends the load, in which no create may fail, and returns the 99th percentile of the duration of a create.
func (l *load) stop() time.Duration {
	GinkgoHelper()
	l.cancel()
	l.done.Wait()
	Expect(l.failed).NotTo(HaveOccurred(), "%d of %d innocent creates failed", l.failures, len(l.took))
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// Where objects are created without being stored: alice's, and those of mallory.
const (
	innocentMachines = "/apis/kubevirt.io/v1/namespaces/" + quiet + "/virtualmachines?dryRun=All"

	virtualMachines = "/apis/kubevirt.io/v1/namespaces/" + attacked + "/virtualmachines?dryRun=All"
	instances       = "/apis/kubevirt.io/v1/namespaces/" + attacked + "/virtualmachineinstances?dryRun=All"
)

// sent is an attacker's request. Its body is encoded once, because the attacker and the server share the machine.
type sent struct {
	path string
	body []byte
}

// request is one that creates an object.
func request(path string, object client.Object) sent {
	GinkgoHelper()
	body, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return sent{path: path, body: body}
}

// flood sends the requests of mallory in turn, at a rate, with at most atOnce in progress, until end is called. The API
// server itself must manage the rate on two cores: a higher one slows all users down also without the webhooks. end
// returns how often each status was answered.
func flood(perSecond, atOnce int, requests ...sent) (end func() string) {
	GinkgoHelper()
	attacker := rawClient("mallory")
	pace := flowcontrol.NewTokenBucketRateLimiter(float32(perSecond), 1)
	var mu sync.Mutex
	answers := map[int]int{}
	var next atomic.Int64
	stop := keep(atOnce, 0, func(ctx context.Context) {
		if pace.Wait(ctx) != nil {
			return
		}
		request := requests[int(next.Add(1))%len(requests)]
		status := 0
		attacker.Post().RequestURI(request.path).SetHeader("Content-Type", "application/json").Body(request.body).Do(ctx).StatusCode(&status)
		if ctx.Err() == nil {
			mu.Lock()
			answers[status]++
			mu.Unlock()
		}
	})
	return func() string {
		stop()
		Expect(answers).NotTo(Or(BeEmpty(), HaveKey(0)), "the attack did not reach the API server")
		return fmt.Sprintf("answers by status %v", answers)
	}
}

// rawClient sends bodies as they are, with the rights of a user.
func rawClient(user string) *rest.RESTClient {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	config.APIPath, config.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"} // the version of the answer's Status
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	raw, err := rest.RESTClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// peak is the most memory that a process has had, in bytes: VmHWM of the kernel.
func peak(pid int) int64 {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			Expect(err).NotTo(HaveOccurred())
			return kilobytes << 10
		}
	}
	Fail("the kernel tells no peak")
	return 0
}

// cpuTime returns the CPU time of a process on all cores, in user and kernel mode.
func cpuTime(pid int) time.Duration {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(status), ") ") // the name of the process may have spaces
	fields := strings.Fields(rest)
	Expect(len(fields)).To(BeNumerically(">", 12))
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
