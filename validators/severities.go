package validators

// Severities are those of rules, by id, that differ from the rules' own; nil for none.
type Severities map[string]Severity
