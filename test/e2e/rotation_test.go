package e2e

import (
	"bytes"
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/certificates"
)

var _ = Describe("A rotation under load costs no call", Serial, func() {
	var l *load
	var failed float64
	BeforeEach(func(ctx SpecContext) {
		rotated(ctx)
		failed = failedCalls(ctx)
	})
	ends := func(ctx context.Context) {
		GinkgoHelper()
		rotated(ctx)
		l.more(ctx, 50)
		l.stop()
		Expect(failedCalls(ctx)).To(Equal(failed), "the API server counts every call that failed")
		Expect(l.unchecked.Load()).To(BeZero(), "and rejects what cannot be checked")
		Expect(l.complete.Load()).To(Equal(l.applied.Load()), "every VMI was completed")
	}

	It("of the server's pair and of the token in the paths", func(ctx SpecContext) {
		l = startLoad(3)
		l.more(ctx, 50)
		before, beforeToken, authority := served(ctx), token(ctx), certificateSecret(ctx).Data[certificates.AuthorityKey]
		By("taking the server's pair out of the Secret, so that it is made again under the same CA")
		takeOut(ctx, certificates.CertificateKey, certificates.PrivateKey)
		Eventually(served).WithContext(ctx).ShouldNot(Equal(before))
		Eventually(func(ctx context.Context) []string { return pathsOf(ctx) }).WithContext(ctx).
			Should(ConsistOf("/mutate/"+token(ctx), "/validate/"+token(ctx), "/deletions/"+token(ctx)))
		Expect(token(ctx)).NotTo(Equal(beforeToken))
		Expect(certificateSecret(ctx).Data[certificates.AuthorityKey]).To(Equal(authority))
		ends(ctx)
	}, NodeTimeout(3*time.Minute))

	It("of the CA", func(ctx SpecContext) {
		l = startLoad(3)
		l.more(ctx, 50)
		authority, before := certificateSecret(ctx).Data[certificates.AuthorityKey], served(ctx)
		takeOut(ctx, certificates.AuthorityPrivateKey)
		Eventually(func(ctx context.Context) [][]byte { return bundlesOf(ctx) }).WithContext(ctx).
			Should(HaveEach(And(ContainSubstring(string(bytes.TrimSpace(authority))), WithTransform(func(b []byte) int { return bytes.Count(b, []byte("BEGIN CERT")) }, Equal(2)))),
				"both CAs are trusted meanwhile")
		Eventually(served).WithContext(ctx).ShouldNot(Equal(before))
		ends(ctx)
		Expect(bundlesOf(ctx)).To(HaveEach(Equal(certificateSecret(ctx).Data[certificates.AuthorityKey])), "only the new CA is trusted afterwards")
		Expect(certificateSecret(ctx).Data[certificates.AuthorityKey]).NotTo(Equal(authority))
	}, NodeTimeout(3*time.Minute))

	It("from a release whose paths have no token", func(ctx SpecContext) {
		controller := cluster.VirtwardControllerProcess()
		Expect(controller.Stop()).To(Succeed())
		takeOut(ctx, certificates.TokenKey)
		setPaths(ctx)
		awaitChecks(ctx)
		l = startLoad(3)
		l.more(ctx, 50)
		By("starting the controller of the new release")
		Expect(controller.Start(ctx)).To(Succeed())
		Eventually(func(ctx context.Context) []string { return pathsOf(ctx) }).WithContext(ctx).
			Should(HaveEach(MatchRegexp("^/(mutate|validate|deletions)/[a-z0-9]{26}$")))
		ends(ctx)
	}, NodeTimeout(3*time.Minute))

	It("by another leader, while the first is killed in the middle of it", func(ctx SpecContext) {
		controller := cluster.VirtwardControllerProcess()
		l = startLoad(3)
		l.more(ctx, 50)
		before, secret := served(ctx), token(ctx)
		takeOut(ctx, certificates.CertificateKey, certificates.PrivateKey)
		Eventually(served).WithContext(ctx).ShouldNot(Equal(before))
		controller.Kill()
		l.more(ctx, 50)
		By("serving on without a controller, and starting another")
		Expect(pathsOf(ctx)).To(HaveEach(HaveSuffix(secret)), "the paths are not written yet")
		Expect(controller.Start(ctx)).To(Succeed())
		Eventually(func(ctx context.Context) []string { return pathsOf(ctx) }).WithContext(ctx).
			Should(HaveEach(HaveSuffix(token(ctx))))
		ends(ctx)
	}, NodeTimeout(3*time.Minute))
})

var _ = Describe("A webhook configuration that comes back", Serial, func() {
	It("gets its CA bundle and its path from the controller", func(ctx SpecContext) {
		rotated(ctx)
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: checks}, configuration)).To(Succeed())
		Expect(admin.Delete(ctx, configuration)).To(Succeed())
		configuration.ResourceVersion, configuration.UID = "", ""
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.CABundle, configuration.Webhooks[i].ClientConfig.Service.Path = nil, nil
		}
		Expect(admin.Create(ctx, configuration)).To(Succeed())
		Eventually(func(ctx context.Context) []string { return pathsOf(ctx) }).WithContext(ctx).
			Should(ConsistOf("/mutate/"+token(ctx), "/validate/"+token(ctx), "/deletions/"+token(ctx)))
		awaitChecks(ctx)
	})
})

// rotated waits until no rotation is under way.
func rotated(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		data := certificateSecret(ctx).Data
		g.Expect(data).To(HaveKey(certificates.TokenKey))
		g.Expect(data).NotTo(Or(HaveKey(certificates.PreviousTokenKey), HaveKey(certificates.PreviousAuthorityKey)))
		g.Expect(bundlesOf(ctx)).To(HaveEach(Equal(data[certificates.AuthorityKey])))
	}).WithContext(ctx).Should(Succeed())
}

// takeOut removes keys of the Secret.
func takeOut(ctx context.Context, keys ...string) {
	GinkgoHelper()
	secret := certificateSecret(ctx)
	Expect(change(ctx, admin, secret, func() {
		for _, key := range keys {
			delete(secret.Data, key)
		}
	})).To(Succeed())
}

// clientConfigs returns those of all webhooks of Virtward.
func clientConfigs(ctx context.Context) []admissionregistrationv1.WebhookClientConfig {
	GinkgoHelper()
	return clientConfigsOf(ctx, admin)
}

// clientConfigsOf returns those in the cluster of a client.
func clientConfigsOf(ctx context.Context, admin client.Client) []admissionregistrationv1.WebhookClientConfig {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: webhook}, mutating)).To(Succeed())
	Expect(admin.Get(ctx, client.ObjectKey{Name: checks}, validating)).To(Succeed())
	var all []admissionregistrationv1.WebhookClientConfig
	for _, w := range mutating.Webhooks {
		all = append(all, w.ClientConfig)
	}
	for _, w := range validating.Webhooks {
		all = append(all, w.ClientConfig)
	}
	return all
}

// pathsOf are the paths that our webhooks are called by, each once.
func pathsOf(ctx context.Context) []string {
	GinkgoHelper()
	var paths []string
	seen := map[string]bool{}
	for _, config := range clientConfigs(ctx) {
		path := ""
		if config.Service.Path != nil {
			path = *config.Service.Path
		}
		if !seen[path] {
			paths = append(paths, path)
		}
		seen[path] = true
	}
	return paths
}

func bundlesOf(ctx context.Context) [][]byte {
	GinkgoHelper()
	var bundles [][]byte
	for _, config := range clientConfigs(ctx) {
		bundles = append(bundles, config.CABundle)
	}
	return bundles
}

// setPaths removes the token from every path, as in an older release.
func setPaths(ctx context.Context) {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	mutating.Name, validating.Name = webhook, checks
	Expect(change(ctx, admin, mutating, func() {
		for i := range mutating.Webhooks {
			mutating.Webhooks[i].ClientConfig.Service.Path = new("/mutate")
		}
	})).To(Succeed())
	Expect(change(ctx, admin, validating, func() {
		for i := range validating.Webhooks {
			validating.Webhooks[i].ClientConfig.Service.Path = new("/validate")
		}
	})).To(Succeed())
}
