package virtualimages

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxFound bounds the names that one list holds for all questions, and perFound is the memory of one with the longest names.
	maxFound, perFound = 8_000, 900
	// maxOwn bounds the names for one question of users in the namespace of the image, and maxElsewhere those in other namespaces.
	// Above it, each service account that is considered has one name.
	maxOwn, maxElsewhere = 500, 3_000
)

// found are the users of an image that a list has until now. Whether the image has users that count never depends on the bounds, and
// the numbers are exact below them.
type found struct {
	namespace string
	// own are the names of users in the namespace of the image, all of which count. Users of other namespaces take no room from them.
	own map[string]bool
	// foreign are names of users in other namespaces, sorted, by the service account that clones for them.
	foreign map[types.NamespacedName][]string
	// elsewhere is the number of the names in foreign.
	elsewhere int
}

func newFound(namespace string) *found {
	return &found{namespace: namespace, own: map[string]bool{}, foreign: map[types.NamespacedName][]string{}}
}

// note adds a user.
func (f *found) note(u *user) {
	if u.namespace == f.namespace {
		if len(f.own) < maxOwn && !f.own[u.shown] {
			f.own[strings.Clone(u.shown)] = true
		}
		return
	}
	account := types.NamespacedName{Namespace: u.namespace, Name: u.account}
	names, known := f.foreign[account]
	at, noted := slices.BinarySearch(names, u.shown)
	if noted || known && f.elsewhere >= maxElsewhere {
		return
	}
	if !known {
		account = types.NamespacedName{Namespace: strings.Clone(u.namespace), Name: strings.Clone(u.account)}
	}
	f.foreign[account] = slices.Insert(names, at, strings.Clone(u.shown))
	if f.elsewhere++; len(f.foreign) > 2*maxForeign {
		f.prune()
	}
}

// held is the number of all names.
func (f *found) held() int { return len(f.own) + f.elsewhere }

// prune forgets the service accounts whose permissions will not be read: further accounts can only move one further back.
func (f *found) prune() {
	kept := map[types.NamespacedName][]string{}
	f.elsewhere = 0
	for _, account := range considered(maps.Keys(f.foreign)) {
		kept[account] = f.foreign[account]
		f.elsewhere += len(kept[account])
	}
	f.foreign = kept
}

// users returns them.
func (f *found) users() (list []user) {
	for shown := range f.own {
		list = append(list, user{shown: shown, namespace: f.namespace})
	}
	for account, names := range f.foreign {
		for _, shown := range names {
			list = append(list, user{shown: shown, namespace: account.Namespace, account: account.Name})
		}
	}
	return list
}

// founds are what one list holds for its questions: a question without one has been put off.
type founds struct {
	of   map[*question]*found
	held int
}

func newFounds(asked []*question) *founds {
	f := &founds{of: map[*question]*found{}}
	for _, q := range asked {
		f.of[q] = newFound(q.image.Namespace)
	}
	return f
}

// note adds a user of the image of a question. If this is too much, the questions with the most names are put off to the next list. One
// is always left, since maxFound is more than one can have.
func (f *founds) note(q *question, u *user) {
	to := f.of[q]
	if to == nil {
		return
	}
	f.held -= to.held()
	to.note(u)
	for f.held += to.held(); f.held > maxFound; {
		var most *question
		for q, of := range f.of {
			if most == nil || of.held() > f.of[most].held() {
				most = q
			}
		}
		f.held -= f.of[most].held()
		delete(f.of, most)
	}
}
