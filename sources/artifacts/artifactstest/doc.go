// Package artifactstest has a registry for tests, which can break connections and answer wrongly.
//
// Input: a test, and what the registry does. Output: a registry on loopback that ends with the test.
package artifactstest
