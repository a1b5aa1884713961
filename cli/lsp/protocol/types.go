package protocol

import "github.com/virtward/virtward/cli/lsp/text"

// InitializeParams are the parameters of initialize.
type InitializeParams struct {
	RootURI          string             `json:"rootUri"`
	WorkspaceFolders []WorkspaceFolder  `json:"workspaceFolders"`
	Capabilities     ClientCapabilities `json:"capabilities"`
}

// WorkspaceFolder is a folder that the editor has open.
type WorkspaceFolder struct {
	URI string `json:"uri"`
}

// ClientCapabilities are the abilities of the editor on which the server depends.
type ClientCapabilities struct {
	General struct {
		PositionEncodings []text.Encoding `json:"positionEncodings"`
	} `json:"general"`
	Workspace struct {
		DidChangeWatchedFiles struct {
			DynamicRegistration bool `json:"dynamicRegistration"`
		} `json:"didChangeWatchedFiles"`
	} `json:"workspace"`
}

// InitializeResult is the result of initialize.
type InitializeResult struct {
	Capabilities ServerCapabilities `json:"capabilities"`
	ServerInfo   ServerInfo         `json:"serverInfo"`
}

// ServerInfo names the server.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// ServerCapabilities are what the server offers.
type ServerCapabilities struct {
	PositionEncoding text.Encoding           `json:"positionEncoding"`
	TextDocumentSync TextDocumentSyncOptions `json:"textDocumentSync"`
	CodeLensProvider *CodeLensOptions        `json:"codeLensProvider,omitempty"`

	HoverProvider      bool               `json:"hoverProvider"`
	CompletionProvider *CompletionOptions `json:"completionProvider,omitempty"`
	DefinitionProvider bool               `json:"definitionProvider"`
	InlayHintProvider  bool               `json:"inlayHintProvider"`
	RenameProvider     bool               `json:"renameProvider"`
	CodeActionProvider *CodeActionOptions `json:"codeActionProvider,omitempty"`
}

// CodeActionOptions are the options of code actions.
type CodeActionOptions struct {
	CodeActionKinds []string `json:"codeActionKinds"`
}

// CompletionOptions are the options of completion.
type CompletionOptions struct {
	TriggerCharacters []string `json:"triggerCharacters"`
}

// CodeLensOptions are the options of code lenses.
type CodeLensOptions struct{}

// TextDocumentSyncOptions say how the editor sends documents.
type TextDocumentSyncOptions struct {
	OpenClose bool `json:"openClose"`
	Change    int  `json:"change"`
	Save      bool `json:"save"`
}

// SyncIncremental means that the editor sends changes.
const SyncIncremental = 2

// TextDocumentItem is a document that the editor opens.
type TextDocumentItem struct {
	URI     string `json:"uri"`
	Version int    `json:"version"`
	Text    string `json:"text"`
}

// TextDocumentIdentifier names a document, and in changes its new version.
type TextDocumentIdentifier struct {
	URI     string `json:"uri"`
	Version int    `json:"version"`
}

// DidOpenTextDocumentParams are the parameters of textDocument/didOpen.
type DidOpenTextDocumentParams struct {
	TextDocument TextDocumentItem `json:"textDocument"`
}

// DidChangeTextDocumentParams are the parameters of textDocument/didChange.
type DidChangeTextDocumentParams struct {
	TextDocument   TextDocumentIdentifier `json:"textDocument"`
	ContentChanges []text.Change          `json:"contentChanges"`
}

// TextDocumentParams are the parameters of methods about a document, and of those about a position or a range in it.
type TextDocumentParams struct {
	TextDocument TextDocumentIdentifier `json:"textDocument"`
	Position     text.Position          `json:"position"`
	Range        text.Range             `json:"range"`
	// NewName is that of a rename.
	NewName string `json:"newName"`
}

// PublishDiagnosticsParams are the diagnostics of a document.
type PublishDiagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []Diagnostic `json:"diagnostics"`
}

// Severity is the severity of a diagnostic.
type Severity int

// The severities.
const (
	SeverityError       Severity = 1
	SeverityWarning     Severity = 2
	SeverityInformation Severity = 3
)

// Diagnostic is a finding at a range.
type Diagnostic struct {
	Range    text.Range `json:"range"`
	Severity Severity   `json:"severity"`
	Code     string     `json:"code,omitempty"`
	Source   string     `json:"source"`
	Message  string     `json:"message"`
}

// CodeLens is a line of text above a line.
type CodeLens struct {
	Range   text.Range `json:"range"`
	Command Command    `json:"command"`
}

// Command is the title of a code lens. An empty command only shows it.
type Command struct {
	Title   string `json:"title"`
	Command string `json:"command"`
}

// Hover is a text about a range.
type Hover struct {
	Contents MarkupContent `json:"contents"`
	Range    text.Range    `json:"range"`
}

// MarkupContent is a text. Its kind is always plaintext.
type MarkupContent struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// PlainText is a text without markup.
func PlainText(value string) MarkupContent { return MarkupContent{Kind: "plaintext", Value: value} }

// CompletionList is what can be typed.
type CompletionList struct {
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []CompletionItem `json:"items"`
}

// CompletionItem is a word that can be typed.
type CompletionItem struct {
	Label         string         `json:"label"`
	Kind          CompletionKind `json:"kind"`
	Detail        string         `json:"detail,omitempty"`
	Documentation *MarkupContent `json:"documentation,omitempty"`
	TextEdit      TextEdit       `json:"textEdit"`
}

// CompletionKind is the symbol of an item.
type CompletionKind int

// The kinds of items.
const (
	CompletionField     CompletionKind = 5
	CompletionVariable  CompletionKind = 6
	CompletionValue     CompletionKind = 12
	CompletionReference CompletionKind = 18
)

// TextEdit replaces a range.
type TextEdit struct {
	Range   text.Range `json:"range"`
	NewText string     `json:"newText"`
}

// Location is a range of a document.
type Location struct {
	URI   string     `json:"uri"`
	Range text.Range `json:"range"`
}

// InlayHint is a text that the editor shows in a line.
type InlayHint struct {
	Position    text.Position `json:"position"`
	Label       string        `json:"label"`
	Tooltip     string        `json:"tooltip,omitempty"`
	PaddingLeft bool          `json:"paddingLeft"`
}

// WorkspaceEdit changes documents, by their URIs.
type WorkspaceEdit struct {
	Changes map[string][]TextEdit `json:"changes"`
}

// QuickFix is the kind of a code action that corrects a problem.
const QuickFix = "quickfix"

// CodeAction is a change that corrects a diagnostic.
type CodeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []Diagnostic  `json:"diagnostics"`
	Edit        WorkspaceEdit `json:"edit"`
}
