// Package proof writes tests of converted policies, and runs the engine of the originals beside Virtward.
//
// What enters: a policy that package convert made of a rule in patterns, and its original. What leaves: a directory with both, a suite
// of Virtward and a test of Kyverno with the same objects and results. The objects are those of Written.Cases. Their results are those
// of the policy: that they are those of the original too is known only after the engine ran, with Engine.
//
// It writes only to the directory that it gets, and runs only the program that it gets.
package proof
