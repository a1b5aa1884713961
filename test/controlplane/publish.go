package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// selectorAnnotation of a Service has the selector that PointServiceAtLocalhost removed.
	selectorAnnotation = "sandbox.virtward.io/selector"
	// sliceSuffix and sliceManager name the EndpointSlices of the sandbox.
	sliceSuffix  = "-sandbox"
	sliceManager = "sandbox.virtward.io"
)

// publish writes the status of each Deployment that has processes, and an EndpointSlice for each Service that selects them.
func (c *ControlPlane) publish(ctx context.Context, all []*Virtward) error {
	byDeployment := map[client.ObjectKey][]*Virtward{}
	namespaces := map[string]bool{}
	for _, v := range all {
		byDeployment[v.deployment] = append(byDeployment[v.deployment], v)
		namespaces[v.deployment.Namespace] = true
	}
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		deployments := &appsv1.DeploymentList{}
		if err := c.client.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range deployments.Items {
			d := &deployments.Items[i]
			if processes := byDeployment[client.ObjectKeyFromObject(d)]; len(processes) > 0 {
				errs = append(errs, c.publishDeployment(ctx, d, readyAmong(processes)))
			}
		}
		errs = append(errs, c.publishEndpoints(ctx, namespace, deployments.Items, byDeployment))
	}
	return errors.Join(errs...)
}

func readyAmong(processes []*Virtward) (count int32) {
	for _, v := range processes {
		if v.Ready() {
			count++
		}
	}
	return count
}

// publishDeployment writes the status of a Deployment.
func (c *ControlPlane) publishDeployment(ctx context.Context, d *appsv1.Deployment, ready int32) error {
	base := d.DeepCopy()
	d.Status = statusOf(base, ready)
	if equality.Semantic.DeepEqual(base.Status, d.Status) {
		return nil
	}
	if err := c.client.Status().Patch(ctx, d, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Deployment %s: %w", client.ObjectKeyFromObject(d), err)
	}
	return nil
}

// statusOf is the status that the controller of Deployments would write for a number of ready pods.
func statusOf(d *appsv1.Deployment, ready int32) appsv1.DeploymentStatus {
	status := *d.Status.DeepCopy()
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	ready = min(ready, replicas)
	status.ObservedGeneration = d.Generation
	status.Replicas, status.UpdatedReplicas = replicas, replicas
	status.ReadyReplicas, status.AvailableReplicas, status.UnavailableReplicas = ready, ready, replicas-ready
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.",
	}
	if ready < replicas-replicas/4 { // the chart does not change the default of maxUnavailable: a quarter
		available.Status, available.Reason, available.Message = corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
	}
	progressing := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: "The processes of the Deployment run on this machine.",
	}
	for _, condition := range []appsv1.DeploymentCondition{available, progressing} {
		setDeploymentCondition(&status, condition)
	}
	return status
}

func setDeploymentCondition(status *appsv1.DeploymentStatus, condition appsv1.DeploymentCondition) {
	condition.LastTransitionTime, condition.LastUpdateTime = metav1.Now(), metav1.Now()
	for i := range status.Conditions {
		if known := &status.Conditions[i]; known.Type == condition.Type {
			if known.Status != condition.Status {
				*known = condition
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

// publishEndpoints writes an EndpointSlice for each Service that selects pods of the Deployments.
func (c *ControlPlane) publishEndpoints(ctx context.Context, namespace string, deployments []appsv1.Deployment, processes map[client.ObjectKey][]*Virtward) error {
	address, kind := HostAddress()
	if address == "" { // EndpointSlices reject loopback
		return nil
	}
	services := &corev1.ServiceList{}
	if err := c.client.List(ctx, services, client.InNamespace(namespace)); err != nil {
		return err
	}
	known, err := c.slicesIn(ctx, namespace)
	if err != nil {
		return err
	}
	var errs []error
	for i := range services.Items {
		service := &services.Items[i]
		selector := selectorOf(service)
		if len(selector) == 0 {
			continue
		}
		for j := range deployments {
			d := &deployments[j]
			owned := processes[client.ObjectKeyFromObject(d)]
			if len(owned) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(d.Spec.Template.Labels)) {
				continue
			}
			slice := sliceFor(service, d, kind)
			for _, v := range owned {
				up := v.Ready()
				shown := up || service.Spec.PublishNotReadyAddresses
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{address}, NodeName: new("sandbox"),
					Conditions: discoveryv1.EndpointConditions{Ready: &shown, Serving: &up, Terminating: new(false)},
				})
			}
			errs = append(errs, c.writeSlice(ctx, known[slice.Name], slice))
		}
	}
	return errors.Join(errs...)
}

// selectorOf is the selector of a Service, also of one that points at this machine.
func selectorOf(service *corev1.Service) map[string]string {
	if len(service.Spec.Selector) > 0 {
		return service.Spec.Selector
	}
	selector := map[string]string{}
	if json.Unmarshal([]byte(service.Annotations[selectorAnnotation]), &selector) != nil {
		return nil
	}
	return selector
}

// sliceFor is the EndpointSlice of a Service for the pods of a Deployment, without endpoints.
func sliceFor(service *corev1.Service, d *appsv1.Deployment, kind discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name + sliceSuffix,
			Labels:          map[string]string{discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: sliceManager},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))},
		},
		AddressType: kind,
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number := port.TargetPort.IntVal
		for _, container := range d.Spec.Template.Spec.Containers {
			for _, p := range container.Ports {
				if p.Name == port.TargetPort.StrVal && port.TargetPort.StrVal != "" {
					number = p.ContainerPort
				}
			}
		}
		if number == 0 {
			number = port.Port
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &number, Protocol: new(corev1.ProtocolTCP)})
	}
	return slice
}

// slicesIn are the EndpointSlices of a namespace, by name.
func (c *ControlPlane) slicesIn(ctx context.Context, namespace string) (map[string]*discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the EndpointSlices of %s: %w", namespace, err)
	}
	byName := map[string]*discoveryv1.EndpointSlice{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// writeSlice writes an EndpointSlice if it differs from the one that exists, which may be nil.
func (c *ControlPlane) writeSlice(ctx context.Context, known, slice *discoveryv1.EndpointSlice) error {
	var err error
	switch {
	case known == nil:
		err = c.client.Create(ctx, slice)
	case !equality.Semantic.DeepEqual(known.Endpoints, slice.Endpoints) || !equality.Semantic.DeepEqual(known.Ports, slice.Ports):
		known.Endpoints, known.Ports = slice.Endpoints, slice.Ports
		err = c.client.Update(ctx, known)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the EndpointSlice %s: %w", client.ObjectKeyFromObject(slice), err)
	}
	return nil
}

// HostAddress is an address of this machine that is not loopback; empty if it has none.
func HostAddress() (string, discoveryv1.AddressType) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", ""
	}
	found, kind := "", discoveryv1.AddressType("")
	for _, address := range addresses {
		network, isNetwork := address.(*net.IPNet)
		switch {
		case !isNetwork || !network.IP.IsGlobalUnicast():
		case network.IP.To4() != nil:
			return network.IP.String(), discoveryv1.AddressTypeIPv4
		case found == "":
			found, kind = network.IP.String(), discoveryv1.AddressTypeIPv6
		}
	}
	return found, kind
}
