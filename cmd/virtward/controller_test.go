package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestControllerFlags(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"defaults":                      {"--namespace=v", ""},
		"no namespace":                  {"--namespace=", "--namespace is empty and $POD_NAMESPACE is not set: name the namespace that Virtward is installed in"},
		"an interval that is too short": {"--namespace=v --audit-interval=59s", "--audit-interval is 59s: it must be a minute or longer"},
		"an interval below the least":   {"--namespace=v --audit-interval=1m --audit-min-interval=2m", "--audit-interval is 1m0s and --audit-min-interval is 2m0s: both must not be negative, and the first must not be shorter than the second"},
		"a negative delay":              {"--namespace=v --audit-delay=-1s", "--audit-delay is -1s: it must not be negative"},
		"no results":                    {"--namespace=v --audit-max-results=0", "--audit-max-results is 0: it must be within 1 and 500"},
		"too many results":              {"--namespace=v --audit-max-results=501", "--audit-max-results is 501: it must be within 1 and 500"},
		"no results of a policy":        {"--namespace=v --audit-max-results-per-policy=0", "--audit-max-results-per-policy is 0: it must be 1 or more"},
		"both APIs of reports":          {"--namespace=v --reports=openreports.io/v1alpha1,wgpolicyk8s.io/v1alpha2", ""},
		"no reports":                    {"--namespace=v --reports=", ""},
		"an unknown API of reports":     {"--namespace=v --reports=v1", `--reports: "v1" is no API of reports: it must be one of openreports.io/v1alpha1, wgpolicyk8s.io/v1alpha2`},
		"an API of reports twice":       {"--namespace=v --reports=openreports.io/v1alpha1,openreports.io/v1alpha1", `--reports: "openreports.io/v1alpha1" is named twice`},
		"a lease that is too short":     {"--namespace=v --lease-duration=2s", "--lease-duration is 2s: it must be three seconds or longer"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &controllerOptions{}
			flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
			o.addFlags(flags)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := o.validate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestShortEvent(t *testing.T) {
	if got := shortened(strings.Repeat("é", 1000)); got != strings.Repeat("é", 1000) {
		t.Error("a message that fits is cut")
	}
	if got := []rune(shortened(strings.Repeat("é", 1001))); len(got) != 1000 || got[999] != '…' {
		t.Errorf("a long message has %d characters", len(got))
	}
}
