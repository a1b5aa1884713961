package placement

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// deviceClaim is a ResourceClaim of the pod.
type deviceClaim struct {
	// text names it for people, and name is its own; empty if it is made for the pod later.
	text   string
	name   string
	source source
	// claim is nil if it is not known, and absent reports that it does not exist.
	claim  *resourcev1.ResourceClaim
	absent bool
}

// deviceClaims are the ResourceClaims of a pod. Those of templates are made for each pod.
func (c *compilation) deviceClaims() []deviceClaim {
	all := make([]deviceClaim, 0, len(c.pod.Spec.ResourceClaims))
	for i := range c.pod.Spec.ResourceClaims {
		of := &c.pod.Spec.ResourceClaims[i]
		one := deviceClaim{text: "the ResourceClaim " + of.Name, source: c.deviceClaimSource(of.Name)}
		name := of.ResourceClaimName
		if template := of.ResourceClaimTemplateName; template != nil {
			one.text = "a ResourceClaim of the template " + *template
			name = c.madeOf(of.Name)
		}
		if name != nil {
			one.name, one.text = *name, "the ResourceClaim "+*name
			one.claim = c.snapshot.deviceClaims[c.pod.Namespace+"/"+*name]
			one.absent = one.claim == nil && !c.snapshot.cluster.Unknown.DeviceClaims
		}
		all = append(all, one)
	}
	return all
}

// madeOf is the name of the claim that Kubernetes made of a template for the pod; nil if it made none yet.
func (c *compilation) madeOf(name string) *string {
	for i := range c.pod.Status.ResourceClaimStatuses {
		if s := &c.pod.Status.ResourceClaimStatuses[i]; s.Name == name {
			return s.ResourceClaimName
		}
	}
	return nil
}

// deviceClaimSource is the field of the instance that names a claim.
func (c *compilation) deviceClaimSource(name string) source {
	if c.VMI == nil {
		return source{}
	}
	for i := range c.VMI.Spec.ResourceClaims {
		if c.VMI.Spec.ResourceClaims[i].Name == name {
			return c.of("spec.resourceClaims["+strconv.Itoa(i)+"]", "")
		}
	}
	return source{}
}

// allocation is where the devices of a claim are; nil if they are not allocated.
func (d *deviceClaim) allocation() *resourcev1.AllocationResult {
	if d.claim == nil {
		return nil
	}
	return d.claim.Status.Allocation
}

// dynamicResources requires the nodes where the devices of allocated ResourceClaims are.
func dynamicResources(c *compilation) []check {
	var checks []check
	claims := c.deviceClaims()
	for i := range claims {
		d := &claims[i]
		allocated := d.allocation()
		switch {
		case d.absent:
			checks = append(checks, everywhere(DeviceClaimNotFound, d.source, "there is no ResourceClaim "+d.name, "create it, or name another one"))
		case allocated != nil && allocated.NodeSelector != nil:
			checks = append(checks, allocatedElsewhere(d, allocated.NodeSelector))
		}
	}
	return checks
}

// allocatedElsewhere requires the nodes of an allocation.
func allocatedElsewhere(d *deviceClaim, selector *corev1.NodeSelector) check {
	terms := termsOf(selector)
	return check{
		kind: AllocatedElsewhere, source: d.source,
		passes: func(n *node) bool { return selects(terms, n) },
		explain: func(*node) (string, string) {
			return fmt.Sprintf("the devices of %s are allocated on nodes with %s", d.text, describe(terms)), "stop the pods that use it, so that it can be allocated again, or use another claim"
		},
	}
}

// notAllocated are the ResourceClaims of which it is not known which nodes can allocate their devices.
func (c *compilation) notAllocated() []string {
	var names []string
	claims := c.deviceClaims()
	for i := range claims {
		if d := &claims[i]; !d.absent && d.allocation() == nil {
			names = append(names, d.text)
		}
	}
	return names
}
