package main

import (
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/virtward/virtward/cli/options"
)

// newCommand returns the command.
func newCommand(program options.Program) *cobra.Command {
	var verbose bool
	var minimum float64
	var sources string
	cmd := &cobra.Command{
		Use:         "kubectl-virtward-conformance FILE.jsonl|DIRECTORY ...",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: program.Name},
		Short:       "Compare recorded answers of KubeVirt with those of Virtward",
		Long: `Compare recorded answers of KubeVirt, of kubevirt/virt-template, HCO, SSP and CDI, with those of Virtward.

Each line of a file is a case. Of a directory, all files that end with .jsonl are read. There are seven sorts of cases.

Admission requests, and virtual machines with an instancetype and a preference, with the answer of KubeVirt: the table shows for
each area how many answers are equal: completed specs (mutated), decisions (allowed), their causes, and expanded specs
(expand). 0/0 means that the area has no such answers. The totals do not include areas in brackets.

Cases of templates, with the answer of virt-template: an answer is equal; or better, if the recorded one is a known fault and
Virtward's answer is the right one; or other. The totals count equal and better answers. Skipped cases count in no total.
Cases of conversion name an OpenShift Template of a public repository: --sources is a directory with these files.

Changes of running virtual machines, with what KubeVirt's controllers did: the condition RestartRequired (restart), the
running instance (live), and the changes that KubeVirt announces nowhere (silent). Denied changes are not compared.

Golden images, with the answers of HCO, SSP and CDI: equal, better or other, as for templates. The total counts equal answers, and
then the better ones. Cases about fields that only HCO or SSP have are not applicable.

Libvirt domains, with those that virt-launcher made: the total counts equal ones.

Instances, with the pod that KubeVirt's virt-controller renders. The total counts equal pods.

Nodes, with the labels that KubeVirt's virt-handler sets. The total counts nodes with equal labels.

The source code of Virtward has such files in conformance/testdata. With --min, the exit code is 1 if one of the
totals is below that share.`,
		Example: program.Examples(`  # Compare this program with KubeVirt and virt-template
  PROGRAM conformance/testdata

  # Show every difference, and fail below 98 %
  PROGRAM admission.jsonl -v --min 0.98`),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return options.Usagef("add a file with cases: see %s --help", cmd.CommandPath())
			case !(minimum >= 0 && minimum <= 1):
				return options.Usagef("--min %v: must be between 0 and 1", minimum)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			klog.SetLogger(logr.Discard()) // the libraries of the aggregated API log each group
			r, err := replay(args, sources)
			if err != nil {
				return err
			}
			if err := r.write(program.Streams.Out, verbose); err != nil {
				return err
			}
			return r.below(minimum)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "Show every difference")
	cmd.Flags().Float64Var(&minimum, "min", 0, "Exit with 1 if one of the totals is below this share, such as 0.98")
	cmd.Flags().StringVar(&sources, "sources", "", "Directory with the OpenShift Templates that cases of conversion name")
	return cmd
}
