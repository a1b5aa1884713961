// Package controllers has what all controllers share: each is a controller-runtime reconciler of the same shape.
//
// What enters: changes that no informer of the manager watches. What leaves: requests for reconcilers. The package
// reads and writes nothing in the cluster.
//
// # The shape
//
// A key is one unit of work: the name of a policy, or one fixed key where the whole is one unit, such as the
// certificates. Reconcile observes, plans, remembers the plan, applies it and reports:
//
//	func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
//		object := &policy{}
//		if err := r.Get(ctx, request.NamespacedName, object); err != nil {
//			return reconcile.Result{}, client.IgnoreNotFound(err)
//		}
//		there, err := r.observe(ctx, object)
//		if err != nil {
//			return reconcile.Result{}, errors.Join(err, r.reports(ctx, object, nil, err))
//		}
//		steps, next := plan(object, there)
//		if _, err := r.memory.Write(ctx, object, next, transition); err != nil {
//			return statuses.Requeue(time.Second, reconcile.Result{}, err)
//		}
//		err = r.apply(ctx, steps)
//		return reconcile.Result{RequeueAfter: time.Hour}, errors.Join(err, r.reports(ctx, object, steps, err))
//	}
//
// ExampleTrigger has it as code that compiles. Most controllers have one of the two classes of statuses only; golden images have
// both.
//
//   - The plan is pure: it takes the time as a value, changes no argument, and has a table test.
//   - Each field of a status is memory or report: see below. Package statuses writes both, and a test rejects other writes.
//   - Each controller has one field owner and writes only its own part.
//   - Every write is safe to repeat. A reconciler that is killed before or after any write leaves work that the next
//     one completes without a duplicate; a test kills it at each of them.
//   - An event is written after the status has the transition. Package events has their type, and each controller one table of its
//     reasons.
//   - Watches and predicates have no side effects. They turn an object into keys, and nothing else.
//   - Nothing that users may create is cached whole. The manager's cache holds objects with our label or of a given
//     name, and reading another kind through it fails. A Trigger requests reconciliations for what configcache watches.
//   - After an error only its key is retried, with growing delays. Being behind the API server is not an error: the key
//     is requested again after a moment.
//
// # Memory and report
//
// A field is memory if what the controller does next depends on it. It is written before the act that it records, by an update with
// the resourceVersion that was read. Otherwise it is a report: it is written last, also if observing or applying failed, by
// server-side apply of the version that was read.
//
//	object           memory                                        report                        owner
//	rollout          all: phase, counts, virtual machines,                                       virtward-rollouts
//	                 attempts, UIDs of instances, times
//	VirtualImage     id, attempt, imageClassName, sizeBytes,       progress, size, checksum,     virtward-virtualimages
//	                 ready, and the reasons and times of           usage: written together with
//	                 the conditions                                the memory
//	golden images    nodes, absent, retired, images (default       observedGeneration,           virtward-images
//	                 architectures and manifests)                  conditions
//	capture          all: the conditions, templateRef                                            virtward-templates
//	import           all: the conditions, source, staging,                                       virtward-templateimports
//	                 disks, choices, templateRef
//	template export  all: the conditions, disks, links, expires                                  virtward-templateexports
//	template                                                       Ready, volumes, parameters    virtward-templates
//	policy           Suspended, errors, evaluationErrors,          Compiled, Ready, problems,    virtward-controller
//	                 denials                                       violations and the rest:
//	                                                               written with the memory
//	policy, export                                                 Exported, exportNotes,        virtward-export
//	                                                               enforcedBy: APIServer
//	exception                                                      Active, policies              virtward-controller
//
// Where one plan makes both classes for one object, one update has both. If observing fails, a capture, an import, a template export, a rollout
// and a VirtualImage report nothing: their statuses are memory, and without an observation there is no plan to remember. The other controllers have no
// status: certificates, pending changes, variants, the audit and its counts keep what they need in the objects
// that they write, or read it again. The API of templates writes the approval of a template, for its caller.
package controllers
