// Helm, as users have it, and with the argument "commands" a Helm that runs many commands in one process: tests of the chart
// render it hundreds of times, and a process for each would spend more than half of its time on its own start.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

// Command is a line of the input: Helm's arguments.
type Command struct {
	Args []string `json:"args"`
}

// Result is a line of the output, for the command in the same line of the input.
type Result struct {
	// Output and Complaints are what Helm printed to its standard output and its standard error.
	Output     string `json:"output"`
	Complaints string `json:"complaints,omitempty"`
	// Code is the exit code.
	Code int `json:"code"`
}

func main() {
	kube.ManagedFieldsManager = "helm" // as upstream's program, whatever this one is called
	if len(os.Args) == 2 && os.Args[1] == "commands" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr, helm.SetupLogging))
}

// defaultNamespace comes before the arguments of each command, because Helm keeps the namespace of the command before in memory.
const defaultNamespace = "--namespace=default"

// serve runs the commands of the input until it ends.
func serve(input io.Reader, output io.Writer) error {
	commands, results := json.NewDecoder(input), json.NewEncoder(output)
	for {
		var command Command
		if err := commands.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a command: %w", err)
		}
		var printed, complaints bytes.Buffer
		logging := func(bool) { slog.SetDefault(slog.New(slog.NewTextHandler(&complaints, nil))) }
		result := Result{Code: execute(append([]string{defaultNamespace}, command.Args...), &printed, &complaints, logging)}
		result.Output, result.Complaints = printed.String(), complaints.String()
		if err := results.Encode(result); err != nil {
			return fmt.Errorf("writing a result: %w", err)
		}
	}
}

// execute runs one command, and returns its exit code.
func execute(args []string, output, complaints io.Writer, logging func(debug bool)) int {
	command, err := helm.NewRootCmd(output, args, logging)
	if err != nil {
		fmt.Fprintln(complaints, "Error:", err)
		return 1
	}
	command.SetArgs(args)
	command.SetErr(complaints)
	err = command.Execute()
	if failed := (helm.CommandError{}); errors.As(err, &failed) {
		return failed.ExitCode
	}
	if err != nil {
		return 1
	}
	return 0
}
