package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

func TestDisplayName(t *testing.T) {
	for argv0, want := range map[string]string{
		"kubectl-virtward":                "kubectl virtward",
		"/usr/local/bin/kubectl-virtward": "kubectl virtward",
		"./kubectl-virtward.exe":          "kubectl virtward",
		"/opt/virtward-cli":               "virtward-cli",
		"kubectl-":                        "kubectl-",
	} {
		t.Run(argv0, func(t *testing.T) {
			help := clitest.CallAs(t, argv0, "", "explain", "--help")
			for _, line := range []string{"  " + want + " explain (TYPE/NAME ... | TYPE -l SELECTOR | -f FILE ... | -k DIR) [flags]", "  " + want + " explain -f vm.yaml"} {
				if !strings.Contains(help.Out, line+"\n") {
					t.Errorf("the help lacks %q:\n%s", line, help.Out)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"explain", "--help"}, {"audit", "--help"}, {"policy", "apply", "--help"}, {"rules", "--help"}, {"status", "-h"}, {"completion", "--help"}, {"completion"}, {"completion", "kubectl", "--help"}, {"version", "--help"}} {
		got := clitest.Call(t, "", args...)
		if got.Code != clitest.ExitOK || got.ErrOut != "" || !strings.Contains(got.Out, "Usage:\n  kubectl virtward") {
			t.Errorf("%v: code %d, errors %q, output:\n%s", args, got.Code, got.ErrOut, got.Out)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		got := clitest.Call(t, "", word)
		if got.Code != clitest.ExitOK || !strings.HasPrefix(got.Out, "virtward development, KubeVirt API ") || strings.Count(got.Out, "\n") != 1 {
			t.Errorf("%s: code %d, output %q", word, got.Code, got.Out)
		}
	}
}

// TestFlagSections: the help separates the flags of explain from those of kubectl.
func TestFlagSections(t *testing.T) {
	_, flags, _ := strings.Cut(clitest.Call(t, "", "explain", "--help").Out, "\nFlags:\n")
	own, cluster, found := strings.Cut(flags, "\nCluster flags (those of kubectl, for TYPE/NAME and --from-cluster):\n")
	if !found {
		t.Fatalf("there are no two sections:\n%s", flags)
	}
	for _, flag := range []string{"--filename", "--from-cluster", "--help", "--hypervisor", "--namespace", "--output"} {
		if !strings.Contains(own, flag+" ") || strings.Contains(cluster, flag+" ") {
			t.Errorf("%s is not one of explain's own", flag)
		}
	}
	for _, flag := range []string{"--context", "--kubeconfig", "--server", "--token"} {
		if strings.Contains(own, flag+" ") || !strings.Contains(cluster, flag+" ") {
			t.Errorf("%s is not one of the cluster's", flag)
		}
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{
		"bash":       "__start_kubectl-virtward()",
		"zsh":        "#compdef kubectl-virtward",
		"fish":       "complete -c kubectl-virtward",
		"powershell": "Register-ArgumentCompleter -CommandName 'kubectl-virtward'",
		"kubectl":    `exec kubectl-virtward __complete "$@"`,
	} {
		got := clitest.Call(t, "", "completion", shell)
		if got.Code != clitest.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("%s: code %d, errors %q, and the script lacks %q", shell, got.Code, got.ErrOut, want)
		}
	}
}

// TestCompletedWords calls __complete, as the scripts do.
func TestCompletedWords(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"explain", "--hypervisor", ""}, "hyperv-direct\nkvm\nmshv\n:4\n"},
		{[]string{"explain", "--arch", ""}, "amd64\narm64\ns390x\n:4\n"},
		{[]string{"explain", "-o", ""}, "yaml\ntable\njson\njunit\nsarif\ngithub\npod\n:4\n"},
		{[]string{"audit", "-o", ""}, "table\nmarkdown\njson\nyaml\njunit\nsarif\ngithub\n:4\n"},
		{[]string{"audit", "--hypervisor", ""}, "hyperv-direct\nkvm\nmshv\n:4\n"},
		{[]string{"audit", "vm"}, ":4\n"},
		{[]string{"rules", "--scope", ""}, "vm\nvm-update\nvmi\nvmi-update\ninstancetype\npreference\nset\nrulesettings\ndefaults\npolicy\nexception\ncopy\nrollout\ncatalog\nplugin\n:4\n"},
		{[]string{"rules", "-o", ""}, "table\njson\nmarkdown\n:4\n"},
		{[]string{"rules", "arm64-disk"}, "arm64-disk-bus\tDisks of arm64 are on a virtio or scsi bus\n:4\n"},
		{[]string{"rules", "arm64-disk-bus", ""}, ":4\n"},
		{[]string{"explain", "v"}, "vm/\nvmi/\n:6\n"},
		{[]string{"explain", "pod/"}, ":4\n"},
		{[]string{"explain", "-f", "a.yaml", "v"}, ":4\n"},
		{[]string{"explain", "--mshv-cpu-model", ""}, "auto\nnone\n:4\n"},
	} {
		got := clitest.Call(t, "", append([]string{"__complete"}, c.words...)...)
		if got.Code != clitest.ExitOK || got.Out != c.want {
			t.Errorf("%v: code %d, got %q, want %q", c.words, got.Code, got.Out, c.want)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"explian"}, `unknown command "explian": did you mean "explain"?: see kubectl virtward --help`},
		{[]string{"help", "explian"}, `unknown command "explian": see kubectl virtward --help`},
		{[]string{"explain", "fedora"}, `"fedora": add a type, such as vm/fedora, or use -f fedora for a file: see kubectl virtward explain --help`},
		{[]string{"explain", "vm.yaml"}, `"vm.yaml": use -f for a file: -f vm.yaml: see kubectl virtward explain --help`},
		{[]string{"explain", "dir/vm.yaml", "vm/a"}, `"dir/vm.yaml": use -f for a file: -f dir/vm.yaml: see kubectl virtward explain --help`},
		{[]string{"explain", "vm/a", "./b"}, `"./b": use -f for a file: -f ./b: see kubectl virtward explain --help`},
		{[]string{"explain", "pod", "a"}, `unknown type "pod": the known ones are vm, vmi, vmirs, vmpool, vmt, and instancetypes and preferences by their full names: see kubectl virtward explain --help`},
		{[]string{"explain"}, "name a virtual machine, or a file with -f: see kubectl virtward explain --help"},
		{[]string{"explain", "--hypervizor", "kvm"}, "unknown flag: --hypervizor: see kubectl virtward explain --help"},
		{[]string{"explain", "-f", "a.yaml", "vm/a"}, "name virtual machines or files, not both: see kubectl virtward explain --help"},
		{[]string{"explain", "-f", "a.yaml", "--hypervisor", "xen"}, `unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`},
		{[]string{"explain", "-f", "a.yaml", "--arch", "riscv64"}, `unknown architecture "riscv64": the known ones are amd64, arm64, s390x`},
		{[]string{"explain", "-f", "a.yaml", "-o", "wide"}, `unknown output "wide": the known ones are yaml, table, json, junit, sarif, github, pod`},
		{[]string{"explain", "-f", "a.yaml", "--rollout-strategy", "Later"}, `unknown rollout strategy "Later": the known ones are LiveUpdate, Stage`},
		{[]string{"explain", "pod/a"}, `unknown type "pod": the known ones are vm, vmi, vmirs, vmpool, vmt, and instancetypes and preferences by their full names: see kubectl virtward explain --help`},
		{[]string{"explain", "vm"}, "add the name of the virtual machine: vm/NAME, or labels with -l: see kubectl virtward explain --help"},
		{[]string{"explain", "-f", "a.yaml", "-k", "b"}, "-f and -k exclude each other: see kubectl virtward explain --help"},
		{[]string{"audit", "-f", "a.yaml", "-k", "b"}, "-f and -k exclude each other: see kubectl virtward audit --help"},
		{[]string{"policy", "apply", "-f", "a.yaml", "-k", "b"}, "-f and -k exclude each other: see kubectl virtward policy apply --help"},
		{[]string{"policy", "lint", "a", "-f", "b"}, "name files as arguments or with -f or -k, not both: see kubectl virtward policy lint --help"},
		{[]string{"explain", "-f", "a.yaml", "-l", "a b"}, "--selector: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
		{[]string{"explain", "vm/a", "-l", "a=b"}, "--selector requires a TYPE without a name, or -f: see kubectl virtward explain --help"},
		{[]string{"explain", "-f", "a.yaml", "-A"}, "--all-namespaces requires a TYPE without a name: see kubectl virtward explain --help"},
		{[]string{"explain", "pods", "-l", "a=b"}, `unknown type "pods": the known ones are vm, vmi, vmirs, vmpool, vmt, and instancetypes and preferences by their full names`},
		{[]string{"explain", "vm/"}, `"vm/" is not of the form TYPE/NAME: see kubectl virtward explain --help`},
		{[]string{"explain", "vm", "a", "vmi/b"}, `"vmi/b": TYPE NAME and TYPE/NAME cannot be mixed: see kubectl virtward explain --help`},
		{[]string{"rules", "a", "b"}, "accepts at most one rule: see kubectl virtward rules --help"},
		{[]string{"rules", "arm64-disk-bus", "--arch", "arm64"}, "--hypervisor, --arch and --scope cannot be used with one rule: see kubectl virtward rules --help"},
		{[]string{"rules", "arm64-disc-bus"}, `there is no rule "arm64-disc-bus": did you mean "arm64-disk-bus"?: see kubectl virtward rules`},
		{[]string{"rules", "-o", "yaml"}, `unknown output "yaml": the known ones are table, json, markdown`},
		{[]string{"rules", "--scope", "pod"}, `unknown scope "pod": the known ones are vm, vm-update, vmi, vmi-update, instancetype, preference, set, rulesettings, defaults, policy, exception, copy, rollout, catalog, plugin`},
		{[]string{"rules", "--arch", "riscv64"}, `unknown architecture "riscv64": the known ones are amd64, arm64, s390x`},
		{[]string{"rules", "--hypervisor", "xen"}, `unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`},
		{[]string{"completion", "csh"}, `unknown shell "csh": see kubectl virtward completion --help`},
		{[]string{"version", "now"}, `kubectl virtward version takes no arguments, but got "now": see kubectl virtward version --help`},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := clitest.Call(t, "", c.args...)
			want := clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: " + c.want + "\n"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
