package policytest_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/policytest"
)

// FuzzSuite loads, lints and runs any suite with any policy on any object: there is an answer, and it can be written.
func FuzzSuite(f *testing.F) {
	f.Add(several()["s.yaml"], several()["rego.yaml"], vmOf4Gi)
	f.Add(goodSuite, documented, vmi)
	f.Add(head+"  cases:\n  - name: c\n    object: {a: b}\n    patches: [{op: copy, from: /a, path: /c}]\n    expect: {error: true}\n", memoryPolicy, poolOf16)
	f.Add(head+"  params: {max: null}\n  facts: {featureGates: [x]}\n  objects: [vm.yaml]\n  cases:\n  - {name: c, may: [{verb: '*'}], oldPatches: [{op: test, path: '', value: 1}], expect: {field: x}}\n", asking("authorizer.path('/x').check('get').allowed()", ""), vmOf4Gi)
	f.Fuzz(func(t *testing.T, suite, policy, object string) {
		texts := files(map[string]string{"s.yaml": suite, "policy.yaml": policy, "good.yaml": policy, "rego.yaml": policy, "vm.yaml": object, "large.yaml": large})
		all, problems := policytest.Load(texts, ".")
		for _, p := range problems {
			if p.File == "" || p.Message == "" {
				t.Fatalf("a problem says nothing: %+v", p)
			}
		}
		j := evaluate(t)
		read := policytest.LoadPolicies(texts, ".")
		for _, p := range j.Lint(read) {
			if p.File == "" || p.Message == "" || p.Rule == "" {
				t.Fatalf("a problem says nothing: %+v", p)
			}
		}
		report := j.Run(t.Context(), all, policytest.Options{Trace: true, Coverage: true})
		report.Untested = read.Untested(report)
		for _, s := range report.Suites {
			for _, test := range s.Tests {
				for _, c := range test.Cases {
					if bad := c.Status == policytest.Failed || c.Status == policytest.Broken; bad != (len(c.Reasons) > 0) {
						t.Fatalf("%s has the reasons %q", c.Status, c.Reasons)
					}
				}
			}
		}
		var text strings.Builder
		for _, err := range []error{
			policytest.WriteTable(&text, report, true), policytest.WriteJSON(&text, report), policytest.WriteJUnit(&text, report),
			policytest.WriteMarkdown(&text, report), policytest.WriteTAP(&text, report),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
