package controlplane

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podOf returns the pod of a Deployment for the downward API.
type podOf struct {
	deployment *appsv1.Deployment
	container  corev1.Container
}

func (p podOf) name() string { return p.deployment.Name + "-sandbox" }

func (p podOf) serviceAccount() string {
	if name := p.deployment.Spec.Template.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// variables of the container, in order, references resolved.
func (p podOf) variables(ctx context.Context, reader client.Reader) ([]string, map[string]string, error) {
	values := map[string]string{}
	var list []string
	for _, variable := range p.container.Env {
		value := expand(variable.Value, values)
		if variable.ValueFrom != nil {
			var err error
			if value, err = p.valueFrom(ctx, reader, variable.ValueFrom); err != nil {
				return nil, nil, fmt.Errorf("environment variable %s of Deployment %s: %w", variable.Name, p.deployment.Name, err)
			}
		}
		values[variable.Name] = value
		list = append(list, variable.Name+"="+value)
	}
	return list, values, nil
}

func (p podOf) valueFrom(ctx context.Context, reader client.Reader, source *corev1.EnvVarSource) (string, error) {
	switch {
	case source.FieldRef != nil:
		return p.field(source.FieldRef.FieldPath)
	case source.ResourceFieldRef != nil:
		return p.resource(source.ResourceFieldRef)
	case source.SecretKeyRef != nil:
		secret := &corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: p.deployment.Namespace, Name: source.SecretKeyRef.Name}, secret)
		return string(secret.Data[source.SecretKeyRef.Key]), err
	case source.ConfigMapKeyRef != nil:
		configMap := &corev1.ConfigMap{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: p.deployment.Namespace, Name: source.ConfigMapKeyRef.Name}, configMap)
		return configMap.Data[source.ConfigMapKeyRef.Key], err
	}
	return "", fmt.Errorf("the sandbox does not know this source")
}

func (p podOf) field(path string) (string, error) {
	switch path {
	case "metadata.name":
		return p.name(), nil
	case "metadata.namespace":
		return p.deployment.Namespace, nil
	case "spec.serviceAccountName":
		return p.serviceAccount(), nil
	case "spec.nodeName":
		return "sandbox", nil
	case "status.podIP", "status.hostIP":
		return "127.0.0.1", nil
	}
	return "", fmt.Errorf("the sandbox does not know the field %s", path)
}

func (p podOf) resource(selector *corev1.ResourceFieldSelector) (string, error) {
	quantities := corev1.ResourceList{}
	for name, value := range p.container.Resources.Requests {
		quantities["requests."+name] = value
	}
	for name, value := range p.container.Resources.Limits {
		quantities["limits."+name] = value
	}
	quantity, found := quantities[corev1.ResourceName(selector.Resource)]
	if !found {
		return "", fmt.Errorf("the container has no %s", selector.Resource)
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	return strconv.FormatInt(int64(math.Ceil(quantity.AsApproximateFloat64()/divisor.AsApproximateFloat64())), 10), nil
}

var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// expand resolves $(NAME) as Kubernetes does. Unknown names do not change.
func expand(text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(match string) string {
		if value, found := values[match[2:len(match)-1]]; found {
			return value
		}
		return match
	})
}

// probe is the URL of the container's readiness probe on this machine; empty if it has none.
func probe(container corev1.Container) (string, error) {
	if container.ReadinessProbe == nil || container.ReadinessProbe.HTTPGet == nil {
		return "", nil
	}
	get := container.ReadinessProbe.HTTPGet
	port := get.Port.IntValue()
	for _, p := range container.Ports {
		if port == 0 && p.Name == get.Port.StrVal {
			port = int(p.ContainerPort)
		}
	}
	if port == 0 {
		return "", fmt.Errorf("the readiness probe's port %q is not a port of container %s", get.Port.StrVal, container.Name)
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, port, get.Path), nil
}
