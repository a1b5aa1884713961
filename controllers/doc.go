// Package controllers has what all controllers share: each is a controller-runtime reconciler of the same shape.
//
// What enters: changes that no informer of the manager watches. What leaves: requests for reconcilers. The package
// reads and writes nothing in the cluster.
//
// # The shape
//
// A key is one unit of work: the name of a policy, or one fixed key where the whole is one unit, such as the
// certificates. Reconcile reads what is there, plans, applies the plan and writes the status:
//
//	func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
//		return ctrl.NewControllerManagedBy(mgr).Named("caps").
//			WatchesRawSource(r.trigger.Source(r.keys)).
//			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(policyOf)).
//			WithOptions(controllers.Options()).
//			Complete(r)
//	}
//
//	func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
//		policy := configcache.Named(r.Policies(), request.Name)
//		if policy == nil {
//			return reconcile.Result{}, nil
//		}
//		there, err := r.observe(ctx, policy)
//		if err != nil {
//			return reconcile.Result{}, err
//		}
//		steps, outcome := plan(policy, there)
//		err = r.apply(ctx, steps)
//		return reconcile.Result{RequeueAfter: time.Hour}, errors.Join(err, r.status(ctx, policy, outcome, err))
//	}
//
// ExampleTrigger has it as code that compiles; controllers/export is the largest real one.
//
//   - The plan is pure: it takes the time as a value, changes no argument, and has a table test.
//   - The status is written last and once, by server-side apply, also when applying failed. Each controller has one
//     field owner and writes only its own part.
//   - Every write is safe to repeat. A reconciler that is killed before or after any write leaves work that the next
//     one completes without a duplicate; a test kills it at each of them.
//   - Watches and predicates have no side effects. They turn an object into keys, and nothing else.
//   - Nothing that users may create is cached whole. The manager's cache holds objects with our label or of a given
//     name, and reading another kind through it fails. A Trigger requests reconciliations for what configcache watches.
//   - After an error only its key is retried, with growing delays. Being behind the API server is not an error: the key
//     is requested again after a moment.
package controllers
