package options

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

// AddFileFlags adds the flags of kubectl that name files: --filename, --recursive and --kustomize. The words say what the
// files have.
func (s *Sources) AddFileFlags(cmd *cobra.Command, words string) {
	cmd.Flags().StringSliceVarP(&s.Filenames, "filename", "f", nil, "Files, directories and URLs with "+words+"; - is standard input")
	s.AddRecursiveFlag(cmd)
	cmd.Flags().StringVarP(&s.Kustomize, "kustomize", "k", "", "Directory with a kustomization to render, instead of -f")
}

// AddRecursiveFlag adds --recursive.
func (s *Sources) AddRecursiveFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.Recursive, "recursive", "R", false, "Read subdirectories too")
}

// AddSelectionFlags adds --selector and --require-objects.
func (s *Sources) AddSelectionFlags(cmd *cobra.Command) {
	s.AddSelectorFlag(cmd, "Select objects by their labels")
	cmd.Flags().BoolVar(&s.RequireObjects, "require-objects", false, "Fail if there is no virtual machine; without it, a note says so")
}

// AddSelectorFlag adds --selector. The words say what it selects.
func (s *Sources) AddSelectorFlag(cmd *cobra.Command, words string) {
	cmd.Flags().StringVarP(&s.Selector, "selector", "l", "", words+": key=value, key!=value, key in (a,b)")
}

// Labels returns the selector of --selector, which ValidateFiles has checked.
func (s *Sources) Labels() labels.Selector {
	selector, err := labels.Parse(s.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// ValidateFiles rejects combinations of flags that kubectl rejects too, and a selector with an error.
func (s *Sources) ValidateFiles(cmd *cobra.Command) error {
	if s.Kustomize != "" && len(s.Filenames) > 0 {
		return Usagef("-f and -k exclude each other%s", SeeHelp(cmd))
	}
	if _, err := labels.Parse(s.Selector); err != nil {
		return Usagef("--selector: %w", err)
	}
	return nil
}

// HasFiles reports whether the flags name files.
func (s *Sources) HasFiles() bool { return len(s.Filenames) > 0 || s.Kustomize != "" }

// Read reads the files of --filename and --kustomize. A document that sets a field twice cannot be read.
func (s *Sources) Read(ctx context.Context, stdin io.Reader) (*manifests.Content, error) {
	all, err := s.readAll(ctx, stdin)
	if err != nil {
		return nil, err
	}
	return all.Strictly(), nil
}

// readAll reads the same, and of a field that is set twice the last value.
func (s *Sources) readAll(ctx context.Context, stdin io.Reader) (*manifests.Content, error) {
	all, err := manifests.ReadEach(ctx, s.Filenames, s.Recursive, stdin)
	if err != nil || s.Kustomize == "" {
		return all, err
	}
	rendered, err := Render(s.Kustomize)
	if err != nil {
		return nil, err
	}
	read, err := manifests.ReadParts(ctx, s.Kustomize, rendered)
	if err != nil {
		return nil, err
	}
	all.AddAll(s.Kustomize, read)
	return all, nil
}

// ReadComplete reads the same, and returns an error if a document cannot be read.
func (s *Sources) ReadComplete(ctx context.Context, stdin io.Reader) ([]manifests.Document, error) {
	all, err := s.Read(ctx, stdin)
	if err != nil {
		return nil, err
	}
	return all.Complete()
}

// Select removes virtual machines, and objects that are validated like them, whose labels the selector does not match.
// References and configuration stay.
func (s *Sources) Select(files *offline.Files) {
	files.Subjects, files.Beside = s.Selected(files.Subjects), s.Selected(files.Beside)
}

// Selected returns the documents whose labels the selector matches.
func (s *Sources) Selected(all []manifests.Document) []manifests.Document {
	selector := s.Labels()
	return slices.DeleteFunc(all, func(d manifests.Document) bool { return !selector.Matches(labels.Set(d.Object.GetLabels())) })
}

// NoObjects returns a note for files without a virtual machine, or an error with --require-objects.
func (s *Sources) NoObjects(purpose string) (note string, err error) {
	note = fmt.Sprintf("%s: no virtual machine to %s, and no object that creates one or that one refers to%s", s.Names(), purpose, s.WithLabels())
	if s.RequireObjects {
		return "", errors.New(note)
	}
	return note, nil
}

// WithLabels is the end of a message about objects that are not there; empty without a selector.
func (s *Sources) WithLabels() string {
	if s.Selector == "" {
		return ""
	}
	return fmt.Sprintf(", with the labels %q", s.Selector)
}

// Render renders a kustomization as kubectl kustomize does: it reads files below its directory only, starts no plugin,
// and reads its remote resources.
func Render(dir string) (io.Reader, error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("rendering the kustomization %s: %w", dir, err)
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("rendering the kustomization %s: %w", dir, err)
	}
	return bytes.NewReader(text), nil
}
