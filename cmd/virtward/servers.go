package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/ovf/servers"
)

// serverOptions are the flags of a process that creates pods with a program in the namespaces of users.
type serverOptions struct {
	program          servers.Program
	policy           string
	requests, limits map[string]string
}

func (o *serverOptions) addFlags(flags *pflag.FlagSet, program, memory string) {
	flags.StringVar(&o.program.Image, "server-image", "", "the image of "+program+"; required")
	flags.StringVar(&o.policy, "server-pull-policy", "", "when the image of "+program+" is pulled: Always, IfNotPresent or Never")
	flags.Int64Var(&o.program.User, "server-user", 0, "the user of "+program+"; 0 for the usual one")
	flags.StringToStringVar(&o.requests, "server-request", nil, "a resource that "+program+" requests, such as memory=64Mi; can be repeated")
	flags.StringToStringVar(&o.limits, "server-limit", map[string]string{"memory": memory}, "a limit of "+program+", such as memory="+memory+"; can be repeated")
}

// validate checks the flags, and reads those that have values in text.
func (o *serverOptions) validate() error {
	var errs []error
	if o.program.Image == "" {
		errs = append(errs, errors.New("--server-image is required"))
	}
	switch o.program.PullPolicy = corev1.PullPolicy(o.policy); o.program.PullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, fmt.Errorf("--server-pull-policy is %q: it must be Always, IfNotPresent or Never", o.policy))
	}
	for flag, of := range map[string]struct {
		texts map[string]string
		into  *corev1.ResourceList
	}{"--server-request": {o.requests, &o.program.Resources.Requests}, "--server-limit": {o.limits, &o.program.Resources.Limits}} {
		list, err := quantities(of.texts)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		*of.into = list
	}
	return errors.Join(errs...)
}

// quantities reads the quantities of resources.
func quantities(texts map[string]string) (corev1.ResourceList, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	list := corev1.ResourceList{}
	for name, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, text, err)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}
