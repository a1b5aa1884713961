package lsp

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/cli/lsp/workspace"
)

// job is one analysis of documents. It has all that it reads, so the server can change its state.
type job struct {
	analyzer *analysis.Analyzer
	folders  []*folder
	// scan reads the folders again. Only one job runs at a time, and the server does not read their files.
	scan bool
	// generation is that of the server.
	generation int
	open, work []opened
	results    chan<- analyzed
	// ended is closed when the server ends.
	ended <-chan struct{}
}

// opened is an open document at one time.
type opened struct {
	uri string
	*text.Text
}

func snapshotOf(d *document) opened { return opened{uri: d.uri, Text: d.Text} }

// run analyzes the documents, and sends a result for each, and then one without a document.
func (j *job) run(ctx context.Context) {
	end := analyzed{unscanned: j.scan}
	defer func() { j.send(end) }()
	if j.scan {
		for _, f := range j.folders {
			note, err := f.Scan(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				note = err.Error()
			}
			if note != "" {
				end.notes = append(end.notes, f.path+": "+note)
			}
		}
		end.unscanned = false
	}
	parsed := map[*text.Text]*workspace.File{}
	for _, d := range j.work {
		result, err := j.analyze(ctx, d, parsed)
		if ctx.Err() != nil {
			return
		}
		j.send(analyzed{uri: d.uri, generation: j.generation, result: result, err: err})
	}
}

// send sends a result, unless the server has ended.
func (j *job) send(r analyzed) {
	select {
	case j.results <- r:
	case <-j.ended:
	}
}

func (j *job) analyze(ctx context.Context, d opened, parsed map[*text.Text]*workspace.File) (*analysis.Result, error) {
	limited, cancel := context.WithTimeoutCause(ctx, maxAnalysis, errors.New("the analysis took too long"))
	defer cancel()
	in, name := place(j.folders, d.uri)
	open := map[string]workspace.Open{}
	for _, other := range j.open {
		folder, named := place(j.folders, other.uri)
		if other.uri != d.uri && (in == nil || folder != in) {
			continue
		}
		file := parsed[other.Text]
		if file == nil || file.Name != named {
			var err error
			if file, err = workspace.Parse(limited, named, other.String()); err != nil {
				return nil, err
			}
			parsed[other.Text] = file
		}
		open[named] = workspace.Open{File: file, Content: other.String()}
	}
	files := workspace.NewFolder(nil)
	if in != nil {
		files = in.Folder
	}
	result, err := j.analyzer.Analyze(limited, files.Snapshot(open), name)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	return result, err
}

// place returns the folder of a document, the innermost one, and its name there. A document outside of all folders has no
// folder.
func place(folders []*folder, uri string) (in *folder, name string) {
	file, ok := pathOf(uri)
	if !ok {
		return nil, path.Base(uri)
	}
	name = path.Base(file)
	for _, f := range folders {
		below, inside := strings.CutPrefix(file, strings.TrimSuffix(f.path, "/")+"/")
		if inside && (in == nil || len(f.path) > len(in.path)) {
			in, name = f, below
		}
	}
	return in, name
}

// insert adds a folder, unless it is known.
func insert(folders []*folder, f *folder) []*folder {
	if slices.ContainsFunc(folders, func(known *folder) bool { return known.path == f.path }) {
		return folders
	}
	return append(slices.Clip(folders), f)
}
