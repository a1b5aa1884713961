package controlplane

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncInterval is the interval at which mounted Secrets and ConfigMaps are read. That of a kubelet is up to a minute.
const syncInterval = 500 * time.Millisecond

// mount is a volume of a pod as a folder of this machine, doing what kubelet does: a folder for emptyDir,
// files for the keys of a Secret or ConfigMap, replaced all at once when it changes.
type mount struct {
	mountPath string // in the container
	folder    string // on this machine
	source    corev1.VolumeSource
	namespace string
	written   string // resource version of what the folder shows
}

// mounts of a container, those with the longest mount path first.
func mounts(pod corev1.PodSpec, container corev1.Container, namespace, parent string) ([]*mount, error) {
	var list []*mount
	for _, m := range container.VolumeMounts {
		index := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if index < 0 {
			return nil, fmt.Errorf("container %s mounts volume %q, which the pod does not have", container.Name, m.Name)
		}
		list = append(list, &mount{
			mountPath: path.Clean(m.MountPath),
			folder:    filepath.Join(parent, m.Name),
			source:    pod.Volumes[index].VolumeSource,
			namespace: namespace,
		})
	}
	slices.SortStableFunc(list, func(a, b *mount) int { return len(b.mountPath) - len(a.mountPath) })
	return list, nil
}

// sync updates the folder. It returns false while a Secret or ConfigMap that is not optional is
// missing: a kubelet would not start the container yet.
func (m *mount) sync(ctx context.Context, reader client.Reader) (ready bool, err error) {
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return false, err
	}
	var object client.Object
	var content map[string][]byte
	var optional *bool
	var name string
	var items []corev1.KeyToPath
	switch {
	case m.source.Secret != nil:
		secret := &corev1.Secret{}
		name, optional, object = m.source.Secret.SecretName, m.source.Secret.Optional, secret
		err = reader.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, secret)
		content, items = secret.Data, m.source.Secret.Items
	case m.source.ConfigMap != nil:
		configMap := &corev1.ConfigMap{}
		name, optional, object = m.source.ConfigMap.Name, m.source.ConfigMap.Optional, configMap
		err = reader.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, configMap)
		content, items = texts(configMap.Data, configMap.BinaryData), m.source.ConfigMap.Items
	case m.source.EmptyDir != nil:
		return true, nil
	default:
		return false, fmt.Errorf("the sandbox cannot mount the volume at %s: only secret, configMap and emptyDir", m.mountPath)
	}
	if apierrors.IsNotFound(err) {
		return optional != nil && *optional, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s for the volume at %s: %w", name, m.mountPath, err)
	}
	if m.written == object.GetResourceVersion() {
		return true, nil
	}
	files, complete := selected(content, items)
	if !complete && (optional == nil || !*optional) {
		return false, nil
	}
	if err := replaceFiles(m.folder, files); err != nil {
		return false, fmt.Errorf("writing the volume at %s: %w", m.mountPath, err)
	}
	m.written = object.GetResourceVersion()
	return true, nil
}

// selected are the keys that items name, under their paths; all keys when there are no items. It reports
// whether every item was there.
func selected(content map[string][]byte, items []corev1.KeyToPath) (map[string][]byte, bool) {
	if len(items) == 0 {
		return content, true
	}
	files, complete := map[string][]byte{}, true
	for _, item := range items {
		value, found := content[item.Key]
		if found {
			files[item.Path] = value
		}
		complete = complete && found
	}
	return files, complete
}

func texts(data map[string]string, binary map[string][]byte) map[string][]byte {
	all := map[string][]byte{}
	maps.Copy(all, binary)
	for key, value := range data {
		all[key] = []byte(value)
	}
	return all
}

// replaceFiles shows content in folder the way kubelet does: each file is a link through ..data to a folder
// of its own, and ..data is moved from the old one to the new one in a single step.
func replaceFiles(folder string, content map[string][]byte) error {
	const data = "..data"
	old, _ := os.Readlink(filepath.Join(folder, data)) // there is none the first time
	fresh := ".." + strconv.FormatInt(time.Now().UnixNano(), 10)
	if err := os.Mkdir(filepath.Join(folder, fresh), 0o700); err != nil {
		return err
	}
	for name, value := range content {
		if err := os.WriteFile(filepath.Join(folder, fresh, name), value, 0o600); err != nil {
			return err
		}
	}
	next := filepath.Join(folder, data+"_tmp")
	if err := os.Symlink(fresh, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(folder, data)); err != nil {
		return err
	}
	if err := relink(folder, data, content); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(folder, old))
}

// relink creates the links of new keys, and removes those of deleted keys.
func relink(folder, data string, content map[string][]byte) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		_, wanted := content[entry.Name()]
		if !wanted && !strings.HasPrefix(entry.Name(), "..") {
			if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	for name := range content {
		err := os.Symlink(filepath.Join(data, name), filepath.Join(folder, name))
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

// onThisMachine rewrites a path in a word such as --cert-dir=/certs to the folder that stands for it.
func onThisMachine(word string, list []*mount) string {
	for _, m := range list {
		prefix, rest, found := strings.Cut(word, m.mountPath)
		if found && (prefix == "" || strings.HasSuffix(prefix, "=")) && (rest == "" || rest[0] == '/') {
			return prefix + m.folder + rest
		}
	}
	return word
}
