package release

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is the part of a workflow of GitHub that the tests read.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Env         map[string]string
		Steps       []struct {
			Name, Uses, Run string
			Env             map[string]string
			With            map[string]any
		}
	}
}

// environment is that of a workflow for a tag.
var environment = map[string]string{
	"GITHUB_ACTOR": "octocat", "GITHUB_REPOSITORY": "Acme/virtward", "GITHUB_REPOSITORY_OWNER": "Acme", "GITHUB_SERVER_URL": "https://github.com",
	"GITHUB_WORKFLOW_REF": "Acme/virtward/.github/workflows/release.yml@refs/tags/v0.1.0",
}

// expressions of the workflows, with their values for that tag.
var expressions = map[string]string{"${{ github.ref_name }}": version, "${{ github.token }}": "secret"}

// stubs are the programs that workflows run, which write what they are called with.
var stubs = []string{"make", "gh", "go", ".ci/run", "bin/tools/release", "bin/tools/signing"}

// calls runs the shell parts of a workflow in a folder whose programs only write their arguments.
func calls(t *testing.T, w workflow) (lines []string, home string) {
	t.Helper()
	folder, home := t.TempDir(), t.TempDir()
	log := filepath.Join(folder, "calls")
	for _, name := range stubs {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		script := fmt.Sprintf("#!/bin/bash\nprintf '%%s' %q >>%q\nprintf ' <%%s>' \"$@\" >>%[2]q\necho >>%[2]q\n", name, log)
		if name == "go" {
			script = "#!/bin/bash\necho /toolchains/$GOTOOLCHAIN\n"
		}
		if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "cp", filepath.Join(root, "go.mod"), folder)
	if err := os.MkdirAll(filepath.Join(folder, "dist"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "touch", filepath.Join(folder, "dist", "CHANGELOG.md"), filepath.Join(folder, "dist", "install.yaml"))
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			if step.Run == "" {
				continue
			}
			command := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step.Run)
			command.Dir = folder
			command.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "HOME=" + home, "GITHUB_PATH=" + filepath.Join(home, "path")}
			for name, value := range environment {
				command.Env = append(command.Env, name+"="+value)
			}
			for _, variables := range []map[string]string{job.Env, step.Env} {
				for name, value := range variables {
					for expression, is := range expressions {
						value = strings.ReplaceAll(value, expression, is)
					}
					if strings.Contains(value, "${{") {
						t.Errorf("the step %q has the unknown expression %q", step.Name, value)
					}
					command.Env = append(command.Env, name+"="+value)
				}
			}
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("the step %q: %v\n%s", step.Name, err, output)
			}
		}
	}
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n"), home
}

// TestWorkflows: actions are pinned by digests, expressions are never in shell, and each target of make exists.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"ci.yml": {".ci/run"},
		"release.yml": {
			"make <release> <VERSION=v0.1.0> <RELEASE_REPOSITORY=ghcr.io/acme/virtward> <RELEASE_URL=https://github.com/Acme/virtward/releases/download/v0.1.0> " +
				"<RELEASE_FLAGS=-builder https://github.com/Acme/virtward/.github/workflows/release.yml@refs/tags/v0.1.0> <SIGN_FLAGS=-keyless>",
			"bin/tools/signing <verify> <-identity> <https://github.com/Acme/virtward/.github/workflows/release.yml@refs/tags/v0.1.0> <dist>",
			"bin/tools/release <push> <dist>",
			"gh <release> <create> <v0.1.0> <dist/CHANGELOG.md> <dist/install.yaml> <--verify-tag> <--notes-file> <dist/CHANGELOG.md>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(root, ".github", "workflows", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, use := range regexp.MustCompile(`uses: *(.*)`).FindAllStringSubmatch(string(content), -1) {
				if !regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(use[1]) {
					t.Errorf("the action %q is not pinned by a digest, with its version", use[1])
				}
			}
			var w workflow
			if err := yaml.Unmarshal(content, &w); err != nil {
				t.Fatal(err)
			}
			if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
				t.Errorf("by default, jobs have the permissions %v, want to read only", w.Permissions)
			}
			for _, job := range w.Jobs {
				for _, step := range job.Steps {
					if strings.Contains(step.Run, "${{") {
						t.Errorf("the step %q has an expression in its shell, so a name of a tag could run commands", step.Name)
					}
				}
			}
			got, home := calls(t, w)
			for i := range got {
				got[i] = strings.TrimSuffix(got[i], " <>")
			}
			if !slices.Equal(got, want) {
				t.Errorf("the steps call\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, line := range got {
				words := strings.Fields(line)
				if words[0] != "make" {
					continue
				}
				if target := strings.Trim(words[1], "<>"); !regexp.MustCompile(`(?m)^` + target + `:`).Match(makefile) {
					t.Errorf("the Makefile has no target %s", target)
				}
			}
			path, err := os.ReadFile(filepath.Join(home, "path"))
			if err != nil || !regexp.MustCompile(`^/toolchains/go1\.\d+\.\d+/bin\n$`).Match(path) {
				t.Errorf("the path of Go is %q: %v", path, err)
			}
			if name == "release.yml" {
				testLogin(t, home)
			}
		})
	}
}

// testLogin: the registry gets the token of the workflow.
func testLogin(t *testing.T, home string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(home, ".docker", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Auths map[string]struct{ Auth string }
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if login, err := base64.StdEncoding.DecodeString(config.Auths["ghcr.io"].Auth); err != nil || string(login) != "octocat:secret" {
		t.Errorf("the login is %q: %v", login, err)
	}
}
