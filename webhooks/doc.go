// Package webhooks is the door: it turns AdmissionReviews into calls of the pure pipeline and its verdicts
// into answers.
//
// What enters: the bytes of an AdmissionReview. What leaves: the bytes of its answer, with a JSON patch made
// from the changes that the verdict lists, never by comparing or re-encoding objects, so that fields this
// program does not know are kept; or a rejection made from its findings. The package decides nothing about a
// virtual machine by itself. The mutating side never rejects: what it cannot decode or complete passes as it is.
// The validating side lets nothing pass that it could not check.
package webhooks
