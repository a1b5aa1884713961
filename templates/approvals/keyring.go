package approvals

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// KeyBytes is the size of a key.
	KeyBytes = 32
	// maxKeys bounds the keys that are accepted at the same time.
	maxKeys = 8
	// MaxEnded bounds the templates of which the end of approvals is known. The longest unchanged ones are forgotten.
	MaxEnded = 2000
)

// The keys of the Secret's data.
const (
	// keyPrefix and a number name a key. The largest number is the newest key.
	keyPrefix = "key."
	// endedKey names the ends of approvals: one line with the number of the end for each template.
	endedKey = "ended"
	// sequenceKey names the number of the last end.
	sequenceKey = "sequence"
)

// Keyring are the keys of approvals, and the ends of earlier approvals. The zero value has no key.
type Keyring struct {
	// keys begin with the oldest one.
	keys []key
	// sequence is the number of the last end.
	sequence uint64
	// ended are the numbers of the last end, by the IDs of templates. An approval with a smaller number does not count.
	ended map[string]uint64
}

type key struct {
	number uint64
	secret []byte
}

// Parse reads the data of the Secret. Data without a key is an empty Keyring. An error means that no approval can be verified.
func Parse(data map[string][]byte) (*Keyring, error) {
	k := &Keyring{ended: map[string]uint64{}}
	for name, value := range data {
		text, isKey := strings.CutPrefix(name, keyPrefix)
		if !isKey {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil || strconv.FormatUint(number, 10) != text || len(value) != KeyBytes {
			return nil, fmt.Errorf("data[%s]: it must be %d bytes, with a name of %q and a number", name, KeyBytes, keyPrefix)
		}
		k.keys = append(k.keys, key{number, slices.Clone(value)})
	}
	if len(k.keys) > maxKeys {
		return nil, fmt.Errorf("data: there are %d keys; at most %d are accepted", len(k.keys), maxKeys)
	}
	slices.SortFunc(k.keys, func(a, b key) int { return cmp.Compare(a.number, b.number) })
	if k.Empty() {
		return k, nil // no approval has a valid signature, so none must be ended
	}
	// Without the number, approvals that ended before would count again.
	sequence, err := strconv.ParseUint(string(data[sequenceKey]), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("data[%s]: it must be a number", sequenceKey)
	}
	k.sequence = sequence
	if err := k.parseEnded(string(data[endedKey])); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keyring) parseEnded(text string) error {
	for line := range strings.Lines(text) {
		id, number, found := strings.Cut(strings.TrimSpace(line), " ")
		at, err := strconv.ParseUint(number, 10, 64)
		if !found || err != nil || at > k.sequence {
			return fmt.Errorf("data[%s]: a line must be an ID and a number of at most data[%s]", endedKey, sequenceKey)
		}
		k.ended[id] = at
	}
	return nil
}

// Data is what Parse reads.
func (k *Keyring) Data() map[string][]byte {
	data := map[string][]byte{sequenceKey: []byte(strconv.FormatUint(k.sequence, 10))}
	for _, each := range k.keys {
		data[keyPrefix+strconv.FormatUint(each.number, 10)] = slices.Clone(each.secret)
	}
	var lines strings.Builder
	for _, id := range slices.Sorted(maps.Keys(k.ended)) {
		lines.WriteString(id + " " + strconv.FormatUint(k.ended[id], 10) + "\n")
	}
	data[endedKey] = []byte(lines.String())
	return data
}

// Empty reports whether there is no key.
func (k *Keyring) Empty() bool { return len(k.keys) == 0 }

// Rotating reports whether keys are accepted beside the newest one.
func (k *Keyring) Rotating() bool { return len(k.keys) > 1 }

// Newest identifies the key that signs, without revealing it: its number, and 0 if there is none.
func (k *Keyring) Newest() uint64 {
	if k.Empty() {
		return 0
	}
	return k.newest().number
}

func (k *Keyring) newest() key { return k.keys[len(k.keys)-1] }

// Add adds a key, which signs from now on. The older ones are accepted still, as many as are allowed.
func (k *Keyring) Add(secret []byte) error {
	if len(secret) != KeyBytes {
		return fmt.Errorf("a key must have %d bytes, and has %d", KeyBytes, len(secret))
	}
	k.keys = append(k.keys, key{k.Newest() + 1, slices.Clone(secret)})
	k.keys = k.keys[max(0, len(k.keys)-maxKeys):]
	return nil
}

// DropOld removes all keys but the newest one.
func (k *Keyring) DropOld() { k.keys = k.keys[max(0, len(k.keys)-1):] }

// End ends all approvals of a template that are signed before. Without it, a copy of an approval that was revoked or replaced
// would count again.
func (k *Keyring) End(template types.UID) {
	if k.ended == nil {
		k.ended = map[string]uint64{}
	}
	k.sequence++
	k.ended[idOf(template)] = k.sequence
	for len(k.ended) > MaxEnded {
		oldest, at := "", k.sequence
		for id, number := range k.ended {
			if number < at {
				oldest, at = id, number
			}
		}
		delete(k.ended, oldest)
	}
}

// idOf is a short name for a UID, which a user cannot choose.
func idOf(template types.UID) string {
	hash := sha256.Sum256([]byte(template))
	return base64.RawURLEncoding.EncodeToString(hash[:12])
}
