package clitest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Forbidden is the answer of APIServer for an object that the user may not read.
const Forbidden = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"you may not"}`

// APIServer serves objects by their paths as an API server does, and everything else as absent. It returns a kubeconfig,
// whose namespace is shop.
func APIServer(t *testing.T, objects map[string]string) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, ok := objects[r.URL.Path]
		if body == Forbidden {
			w.WriteHeader(http.StatusForbidden)
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			body = `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"it is not there"}`
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// ClusterObjects are a KubeVirt, a VirtualMachine and its instancetype, by their paths.
func ClusterObjects() map[string]string {
	return map[string]string{
		"/apis/kubevirt.io/v1/kubevirts": `{"apiVersion":"kubevirt.io/v1","kind":"KubeVirtList","items":[{"apiVersion":"kubevirt.io/v1","kind":"KubeVirt","metadata":{"name":"kubevirt","namespace":"kubevirt"},
			"spec":{"configuration":{"cpuModel":"Skylake"}},"status":{"phase":"Deployed","defaultArchitecture":"amd64"}}]}`,
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachines": `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineList","items":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"}}]}`,
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/db": `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db","namespace":"shop","managedFields":[{"manager":"kubectl"}],
			"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},
			"spec":{"runStrategy":"Always","instancetype":{"name":"u1.medium"},"template":{"spec":{"domain":{"devices":{}}}}}}`,
		"/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/u1.medium": `{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"u1.medium"},
			"spec":{"cpu":{"guest":3},"memory":{"guest":"8Gi"}}}`,
	}
}
