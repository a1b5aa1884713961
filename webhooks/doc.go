// Package webhooks has the HTTP handlers of the two admission webhooks. They decode an AdmissionReview, call the
// evaluator, and encode its result.
//
// Input: the bytes of an AdmissionReview. Output: the bytes of its response, with a JSON patch or with the causes of a
// denial. The patch is computed from the changes that the verdict lists, never by comparing or encoding objects, so that
// fields unknown to Virtward are kept.
//
// The package has no rules of its own. The mutating webhook never denies a request: it admits an object unchanged if it
// cannot decode or complete it. The validating webhook denies every request that it cannot evaluate.
package webhooks
