// Package exceptionstatus writes the statuses of VirtualMachinePolicyExceptions: whether each one is active, and why not.
//
// What enters: the exceptions and their guard, as configcache watches them, and the time. What leaves: the condition Active,
// and events when an exception is about to end, has ended or is not permitted. No evaluation reads the statuses.
package exceptionstatus
