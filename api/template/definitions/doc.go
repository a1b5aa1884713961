// Package definitions has the definitions of the kinds of VM templates, as the chart installs them.
//
// Input: nothing; the generated YAML beside this file is embedded. Output: objects. The package has no client.
package definitions
