package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/soak"
)

var update = flag.Bool("update", false, "record the answers of kube-scheduler")

const (
	// pairs are compared in a soak; the first tenth is recorded.
	pairs    = 500
	recorded = pairs / 10
	record   = "testdata/recorded.jsonl"
)

// TestRecorded compares the recorded answers of kube-scheduler.
func TestRecorded(t *testing.T) {
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	count, scheduled := 0, 0
	for ; decoder.More(); count++ {
		a := &Answer{}
		if err := decoder.Decode(a); err != nil {
			t.Fatal(err)
		}
		p, err := Place(Generate(a.Seed))
		if err != nil {
			t.Fatal(err)
		}
		if difference := Compare(p, a); difference != "" {
			t.Errorf("pair %d: %s", a.Seed, difference)
		}
		if a.Scheduled {
			scheduled++
		}
	}
	if count != recorded || scheduled < recorded/10 || scheduled > recorded*9/10 {
		t.Errorf("%d answers, %d scheduled", count, scheduled)
	}
}

// TestCompare: other answers are differences.
func TestCompare(t *testing.T) {
	p, err := Place(Generate(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Answer{
		{Scheduled: true, Node: "gone"},
		{Message: "0/3 nodes are available: 3 node(s) were made of cheese. preemption: none"},
	} {
		if Compare(p, a) == "" {
			t.Errorf("%+v agrees", a)
		}
	}
	got := fmt.Sprint(parse("0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."))
	if want := "map[Insufficient cpu:1 node(s) didn't match Pod's node affinity/selector:3]"; got != want {
		t.Errorf("got %s", got)
	}
}

// TestSoakScheduler compares all pairs with a kube-scheduler.
func TestSoakScheduler(t *testing.T) {
	soak.Only(t)
	plane := planes.Start(t, controlplane.Options{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{}, APIServerArgs: []string{"--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"},
	})
	if err := plane.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{Client: plane.Client()}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespaces[1]}}); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	scheduled := 0
	for seed := range uint64(pairs) {
		a, difference, err := c.ask(t.Context(), seed)
		if err != nil {
			t.Fatalf("pair %d: %v", seed, err)
		}
		if difference != "" {
			t.Errorf("pair %d: %s", seed, difference)
		}
		if a.Scheduled {
			scheduled++
		}
		if seed < recorded {
			line, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
	}
	t.Logf("%d of %d pods were scheduled", scheduled, pairs)
	if *update {
		if err := os.WriteFile(record, lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// cluster is one with a kube-scheduler.
type cluster struct{ client.Client }

// attempts bounds how often a pod is created again, because the scheduler had not noticed all objects.
const attempts = 10

// ask creates a pair, and waits for the answer.
func (c *cluster) ask(ctx context.Context, seed uint64) (*Answer, string, error) {
	pair := Generate(seed)
	p, err := Place(pair)
	if err != nil {
		return nil, "", err
	}
	around := objectsOf(pair)
	for _, object := range around {
		if err := c.create(ctx, object); err != nil {
			return nil, "", fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	var a *Answer
	difference := ""
	for range attempts {
		if a, err = c.answer(ctx, pair, seed); err != nil {
			return nil, "", err
		}
		if difference = Compare(p, a); difference == "" {
			break
		}
	}
	for _, object := range around {
		if err := c.remove(ctx, object); err != nil {
			return nil, "", err
		}
	}
	return a, difference, nil
}

// objectsOf are the objects of a pair, but not its pod.
func objectsOf(pair *Pair) []client.Object {
	var all []client.Object
	add := func(o client.Object) { all = append(all, o) }
	for _, o := range pair.Cluster.Classes {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Drivers {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Capacities {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Nodes {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Volumes {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Claims {
		add(o.DeepCopy())
	}
	for _, o := range pair.Cluster.Pods {
		add(o.DeepCopy())
	}
	return all
}

// create creates an object. Volumes get their status, which is a subresource.
func (c *cluster) create(ctx context.Context, object client.Object) error {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return c.Create(ctx, object)
	}
	status := volume.Status
	if err := c.Create(ctx, volume); err != nil {
		return err
	}
	volume.Status = status
	return c.Status().Update(ctx, volume)
}

// remove deletes an object with its finalizers, and waits until it is gone.
func (c *cluster) remove(ctx context.Context, object client.Object) error {
	key := client.ObjectKeyFromObject(object)
	if err := c.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		return err
	}
	for {
		err := c.Get(ctx, key, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && len(object.GetFinalizers()) > 0 {
			object.SetFinalizers(nil)
			err = c.Update(ctx, object)
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// answer creates the pod, waits for the scheduler, and deletes the pod.
func (c *cluster) answer(ctx context.Context, pair *Pair, seed uint64) (*Answer, error) {
	if err := pause(ctx, 50*time.Millisecond); err != nil { // the scheduler notices changes a moment later
		return nil, err
	}
	pod := pair.Pod.DeepCopy()
	if err := c.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating the pod: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return nil, err
		}
		a, err := c.read(ctx, pair, pod, seed)
		if err != nil {
			return nil, err
		}
		if a != nil {
			return a, c.remove(ctx, pod)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the scheduler does not answer: %w", err)
		}
	}
}

// read reads the answer; nil if there is none yet.
func (c *cluster) read(ctx context.Context, pair *Pair, pod *corev1.Pod, seed uint64) (*Answer, error) {
	if pod.Spec.NodeName != "" {
		return &Answer{Seed: seed, Scheduled: true, Node: pod.Spec.NodeName}, nil
	}
	for i := range pod.Status.Conditions {
		if s := &pod.Status.Conditions[i]; s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse && strings.Contains(s.Message, "nodes are available") {
			return &Answer{Seed: seed, Message: s.Message}, nil
		}
	}
	return c.chosen(ctx, pair, seed)
}

// chosen is the answer for a pod whose volume is being made or bound, which no controller does here.
func (c *cluster) chosen(ctx context.Context, pair *Pair, seed uint64) (*Answer, error) {
	for _, o := range pair.Cluster.Claims {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), claim); err != nil {
			return nil, err
		}
		if node := claim.Annotations["volume.kubernetes.io/selected-node"]; node != "" {
			delete(claim.Annotations, "volume.kubernetes.io/selected-node")
			return &Answer{Seed: seed, Scheduled: true, Node: node}, c.Update(ctx, claim)
		}
	}
	for _, o := range pair.Cluster.Volumes {
		volume := &corev1.PersistentVolume{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), volume); err != nil {
			return nil, err
		}
		if o.Spec.ClaimRef == nil && volume.Spec.ClaimRef != nil {
			return &Answer{Seed: seed, Scheduled: true}, nil
		}
	}
	return nil, nil
}
