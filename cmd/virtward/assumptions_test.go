package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// Each process that evaluates objects rejects a strategy that the others reject.
func TestAssumptionsAreValidated(t *testing.T) {
	for name, o := range map[string]interface {
		addFlags(flags *pflag.FlagSet)
		validate() error
	}{"webhook": &webhookOptions{}, "controller": &controllerOptions{}, "templates": &templatesOptions{}} {
		t.Run(name, func(t *testing.T) {
			for value, want := range map[string]string{"Stage": "", "Now": `--rollout-strategy is "Now": it must be LiveUpdate, Stage or empty`} {
				flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
				o.addFlags(flags)
				if err := flags.Parse([]string{"--namespace=virtward-system", "--rollout-strategy=" + value}); err != nil {
					t.Fatal(err)
				}
				got := ""
				if err := o.validate(); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s: got %q, want %q", value, got, want)
				}
			}
		})
	}
}
