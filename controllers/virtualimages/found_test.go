package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/virtualimages"
)

// foreigner is a user in another namespace than team.
func foreigner(namespace, account, name string) user {
	return user{shown: namespace + "/" + name, namespace: namespace, account: account}
}

// TestFoundIsBounded: users of very many accounts fill no more than their part, and those that count are found in each order.
func TestFoundIsBounded(t *testing.T) {
	var all []user
	for namespace := range 100 { // sorted before the one that counts, but with too many accounts
		for account := range 40 {
			for name := range 3 {
				all = append(all, foreigner(fmt.Sprintf("evil-%02d", namespace%25), fmt.Sprintf("a%02d-%02d", namespace, account), fmt.Sprintf("vm%d", name)))
			}
		}
	}
	for name := range 2 * maxOwn {
		all = append(all, userIn(fmt.Sprintf("team/vm%d", name)))
	}
	counting := foreigner("good", virtualimages.DefaultAccount, "web")
	for seed := range uint64(5) {
		list := append([]user{counting}, all...)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // an order
		f, most := newFound("team"), 0
		for i := range list {
			f.note(&list[i])
			most = max(most, f.held())
		}
		if limit := maxOwn + maxElsewhere + 2*maxForeign + 1; most > limit {
			t.Fatalf("%d names, more than %d", most, limit)
		}
		own, counts := 0, false
		for _, u := range f.users() {
			if u.namespace == "team" {
				own++
			}
			counts = counts || u.shown == counting.shown && u.namespace == counting.namespace && u.account == counting.account
		}
		if own != maxOwn || !counts {
			t.Fatalf("order %d: %d users in the namespace, and the one in another namespace is found: %t", seed, own, counts)
		}
	}
	if limit := maxOwn + maxElsewhere + 2*maxForeign + 1; limit > maxFound {
		t.Errorf("one question can have %d names, and a list %d: it has no answer", limit, maxFound)
	}
}

// TestFoundIsExact: below the bounds, each user is found once.
func TestFoundIsExact(t *testing.T) {
	f := newFound("team")
	for range 2 {
		for i := range 700 {
			u := foreigner("shop", virtualimages.DefaultAccount, fmt.Sprint("vm", i))
			f.note(&u)
			u = userIn(fmt.Sprint("team/vm", i%300))
			f.note(&u)
		}
	}
	if users := f.users(); len(users) != 1000 || f.held() != 1000 {
		t.Errorf("%d users, %d held", len(users), f.held())
	}
}

// TestCrowdedList: a list that has too many names for all questions puts those with the most off, and in the end all have answers.
func TestCrowdedList(t *testing.T) {
	const images, many = 12, 2000
	lists := 0
	c := &census{between: time.Millisecond, retry: time.Millisecond}
	c.counts = func(_ context.Context, _ *v1alpha1.VirtualImage, list []user) (names []string, _ error) {
		for i := range list {
			names = append(names, list[i].shown)
		}
		return names, nil
	}
	c.each = func(_ context.Context, found func(user)) error {
		if lists++; lists > images {
			return errors.New("a list had no answer")
		}
		for n := range many {
			for i := range images {
				found(user{shown: fmt.Sprint("shop/vm", n), namespace: "shop", account: virtualimages.DefaultAccount, list: []virtualimages.Reference{{Namespace: "team", Name: fmt.Sprint("i", i)}}})
			}
		}
		found(user{shown: "team/last", namespace: "team", list: []virtualimages.Reference{{Namespace: "team", Name: "small"}}})
		return nil
	}
	since := metav1.NewTime(time.Unix(1_700_000_000, 0))
	names := []string{"small"}
	for i := range images {
		names = append(names, fmt.Sprint("i", i))
	}
	var asked []*question
	for _, name := range names {
		asked = append(asked, &question{image: &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}}, since: since})
	}
	for first := true; len(asked) > 0; first = false {
		answers, err := c.list(t.Context(), asked)
		if err != nil {
			t.Fatalf("%d questions are left after %d lists: %v", len(asked), lists, err)
		}
		var left []*question
		for i, q := range asked {
			switch answer := answers[i]; {
			case answer == nil && q.image.Name == "small":
				t.Error("an image with few users waits for those with many")
			case answer == nil:
				left = append(left, q)
			case q.image.Name == "small":
				if answer.Total != 1 {
					t.Errorf("%+v", answer)
				}
			case answer.Total != many:
				t.Errorf("%s: %+v", q.image.Name, answer)
			}
		}
		if first && len(left) == 0 {
			t.Error("nothing is put off")
		}
		asked = left
	}
}

// TestFoundMemory measures the memory of names.
func TestFoundMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	before, names := isolated.Heap(), 0
	founds := make([]*found, 20)
	for i := range founds {
		founds[i] = newFound("team")
		for n := range maxForeign { // one name for each account is the worst case
			namespace := fmt.Sprintf("%063d", n)
			u := foreigner(namespace, fmt.Sprintf("%0253d", n), strings.Repeat("x", 253))
			founds[i].note(&u)
		}
		names += founds[i].held()
	}
	each := (isolated.Heap() - before) / int64(names)
	runtime.KeepAlive(founds)
	t.Logf("%d bytes for a name", each)
	if each > perFound {
		t.Errorf("%d bytes for a name, more than %d", each, perFound)
	}
}
