package templates

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// insertion is a value in a text, and what is in its place in the text of the template.
type insertion struct {
	v *value
	// text is the value as it is used.
	text        string
	placeholder string
}

// insert reports the given and generated values of a text that change more than its form allows. decoded: the segments are
// one reference ${{NAME}}.
func (r *renderer) insert(segments []segment, decoded bool, joined string) {
	if !r.hasFree(segments) {
		return
	}
	form := formOf(r.path)
	if form == plainText {
		return
	}
	prefix := unusedNumber(joined)
	before, inserted := r.mark(segments, decoded, prefix)
	c := &comparison{renderer: r, form: form, before: before, after: joined, prefix: prefix, inserted: inserted, whole: len(segments) == 1}
	switch form {
	case referenceText:
		c.reference()
	case encodedText:
		c.encoded(inserted)
	case commandText:
		c.command(inserted)
	default:
		c.text(form.syntaxOf(r.path[len(r.path)-1].name, before))
	}
}

func (r *renderer) hasFree(segments []segment) bool {
	for i := range segments {
		if v := r.values[segments[i].text]; segments[i].reference && v != nil && v.isFree() {
			return true
		}
	}
	return false
}

// mark is a text of a template with its approved values, and with placeholders for the others. Placeholders are numbers,
// which are valid within a text and in the place of one. Each has one digit 9, at its start.
func (r *renderer) mark(segments []segment, decoded bool, prefix string) (before string, inserted []insertion) {
	known := map[*value]int{}
	var b strings.Builder
	for i := range segments {
		s := &segments[i]
		if !s.reference {
			b.WriteString(s.text)
			continue
		}
		v := r.values[s.text]
		text := v.text
		if decoded {
			text = v.decoded()
		}
		if !v.isFree() {
			b.WriteString(text)
			continue
		}
		n, ok := known[v]
		if !ok {
			n = len(inserted)
			known[v] = n
			inserted = append(inserted, insertion{v, text, prefix + nonary(n, parameterDigits)})
		}
		b.WriteString(inserted[n].placeholder)
	}
	return b.String(), inserted
}

// placeholderDigits are those of a placeholder after its 9: a number that the text does not have, and one of the parameter.
const (
	placeholderDigits = 8
	parameterDigits   = 4
)

// unusedNumber is a number with one digit 9, at its start, that a text does not have.
func unusedNumber(text string) string {
	used := map[string]bool{}
	for at := strings.IndexByte(text, '9'); at >= 0 && at+1+placeholderDigits <= len(text); {
		used[text[at+1:at+1+placeholderDigits]] = true
		next := strings.IndexByte(text[at+1:], '9')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	for n := 0; ; n++ { // a text has fewer nines than there are numbers
		if digits := nonary(n, placeholderDigits); !used[digits] {
			return "9" + digits
		}
	}
}

// nonary is a number with the digits 0 to 8.
func nonary(n, width int) string {
	text := strconv.FormatInt(int64(n), 9)
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// comparison compares a text of a template before and after the insertion of values.
type comparison struct {
	*renderer

	form          textForm
	syntax        textSyntax
	before, after string
	// prefix is how the placeholders begin.
	prefix   string
	inserted []insertion
	replacer *strings.Replacer
	// whole: the text is one reference.
	whole bool
}

// isLimited reports whether the approver limits which values a user can give.
func (i *insertion) isLimited() bool { return !i.v.given || i.v.constrained() }

// reference: a value that is a part of an address, a path or a name must be a word.
func (c *comparison) reference() {
	for i := range c.inserted {
		if in := &c.inserted[i]; !c.whole && !in.isLimited() && !isWord(in.text) {
			c.unconstrained(in, "it is a part of an address, a path or a name: it may have letters, digits, dots, dashes and underscores")
		}
	}
}

// command: values must be constrained.
func (c *comparison) command(inserted []insertion) {
	for i := range inserted {
		if in := &inserted[i]; !in.isLimited() {
			c.unconstrained(in, "it is in a command, a script or another text whose form is not known")
		}
	}
}

// encoded: a constraint says nothing about the decoded text.
func (c *comparison) encoded(inserted []insertion) {
	for i := range inserted {
		c.unconstrained(&inserted[i], "the text is decoded after the validation: only values of an enum are allowed")
	}
}

// text compares a text of a known syntax.
func (c *comparison) text(s textSyntax) {
	c.syntax = s
	isMIME := func(text string) bool { return strings.Contains(strings.ToLower(text), "mime-version:") }
	switch {
	case s == freeSyntax, s == wordSyntax:
		c.annotation()
		return
	case s == unknownSyntax, c.form == userDataText && isMIME(c.before):
		c.command(c.inserted)
		return
	case c.form == userDataText && isMIME(c.after):
		c.blame("it makes a message in MIME of the text")
		return
	case s.tooLong(c.before) || s.tooLong(c.after) || !c.charge():
		c.blame("the text is too long to compare its structure with that of the template")
		return
	}
	before, err := s.parseText(c.before)
	if err != nil || len(before) != 1 || before[0].kind == scalarElement {
		c.unstructured()
		return
	}
	after, err := s.parseText(c.after)
	if err != nil {
		c.blame("the text has a syntax error with it")
		return
	}
	c.replacer = c.newReplacer()
	for i := range c.inserted {
		if in := &c.inserted[i]; strings.ContainsFunc(in.text, isUnprintable) {
			c.structure(in, "it has a control character")
		}
	}
	if len(before) != len(after) || !c.same(before[0], after[0], place{}) {
		c.blame("it changes the structure of the text")
	}
}

// unstructured is a text that is neither an object nor a list.
func (c *comparison) unstructured() {
	if c.form == annotationText {
		c.annotation()
		return
	}
	c.command(c.inserted)
}

// annotation: a value in the annotation of a component must be a word. One for people takes any text, but does not become
// JSON.
func (c *comparison) annotation() {
	if strings.Contains(c.path[len(c.path)-1].name, "/") {
		c.whole = false
		c.reference()
		return
	}
	if c.form.syntaxOf("", c.after) != jsonSyntax || !json.Valid([]byte(c.after)) {
		return
	}
	for i := range c.inserted {
		if in := &c.inserted[i]; !in.isLimited() {
			c.unconstrained(in, "it makes JSON of a text")
		}
	}
}

// isUnprintable reports whether parsers of YAML differ about a character.
func isUnprintable(c rune) bool {
	return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || c == '\uFEFF' || c == '\uFFFD' || c == '\uFFFE' || c == '\uFFFF'
}

// charge counts what is parsed, and reports whether the bound allows it.
func (c *comparison) charge() bool {
	c.compared += len(c.before) + len(c.after)
	return c.compared <= maxCompared
}

func (c *comparison) newReplacer() *strings.Replacer {
	pairs := make([]string, 0, 2*len(c.inserted))
	for i := range c.inserted {
		pairs = append(pairs, c.inserted[i].placeholder, c.inserted[i].text)
	}
	return strings.NewReplacer(pairs...)
}

// blame reports the values that can have caused a fault of the whole text: those that are no words, or all.
func (c *comparison) blame(detail string) {
	found := false
	for i := range c.inserted {
		if in := &c.inserted[i]; !isWord(in.text) {
			c.structure(in, detail)
			found = true
		}
	}
	for i := range c.inserted {
		if !found {
			c.structure(&c.inserted[i], detail)
		}
	}
}

func (c *comparison) structure(in *insertion, detail string) {
	if !in.v.isStructure {
		in.v.isStructure = true
		c.restrict(RuleStructure, in.v, detail+": "+c.at())
	}
}

func (c *comparison) unconstrained(in *insertion, detail string) {
	if !in.v.isUnconstrained && in.v.given {
		in.v.isUnconstrained = true
		c.restrict(RuleNotConstrained, in.v, detail+": "+c.at())
	}
}

// place is where an element is.
type place struct {
	// command: below a name of a command.
	command bool
	// encoded: an object says that its members are encoded.
	encoded bool
}

// same compares two elements, and reports what the values in texts change. It is false if the structures differ.
func (c *comparison) same(before, after *element, at place) bool {
	if before.kind != after.kind || before.mark != after.mark || before.quoted != after.quoted || len(before.members) != len(after.members) {
		return false
	}
	switch before.kind {
	case aliasElement:
		return before.text == after.text
	case scalarElement:
		return c.sameText(before, after, at)
	case objectElement:
		return c.sameObject(before, after, at)
	}
	for i := range before.members {
		if !c.same(before.members[i], after.members[i], at) {
			return false
		}
	}
	return true
}

func (c *comparison) sameObject(before, after *element, at place) bool {
	at.encoded = at.encoded || before.isEncoded()
	for i := 0; i+1 < len(before.members); i += 2 {
		key, value := before.members[i], before.members[i+1]
		for _, in := range c.in(key.text) {
			if in.v.given {
				c.restrict(RuleAddsFields, in.v, "it decides the name of a field in "+c.at())
			}
		}
		below := at
		below.command = at.command || c.form != networkDataText && commandKeys()[key.text]
		if !c.same(key, after.members[i], at) || !c.same(value, after.members[i+1], below) {
			return false
		}
	}
	return true
}

// isEncoded reports whether an object has the member encoding, such as b64 or gzip.
func (e *element) isEncoded() bool {
	for i := 0; i+1 < len(e.members); i += 2 {
		if e.members[i].text == "encoding" && !strings.HasPrefix(e.members[i+1].text, "text/") {
			return true
		}
	}
	return false
}

// in are the values in a text of the template.
func (c *comparison) in(text string) (found []insertion) {
	if !strings.Contains(text, c.prefix) {
		return nil
	}
	for i := range c.inserted {
		if strings.Contains(text, c.inserted[i].placeholder) {
			found = append(found, c.inserted[i])
		}
	}
	return found
}

// sameText compares two texts: the second must be the first with the values in it, as they were validated.
func (c *comparison) sameText(before, after *element, at place) bool {
	inserted := c.in(before.text)
	if len(inserted) == 0 {
		return before.text == after.text && before.typed == after.typed
	}
	switch {
	case after.text != c.replacer.Replace(before.text):
		c.each(inserted, "it is read as another text: use no quotes, backslashes and comments")
		return true
	case c.syntax == yamlSyntax && !after.quoted && !isPlain(after):
		c.each(inserted, "it is read as another type than a text, a number, true or false")
		return true
	case isDataURL(before.text) && strings.Contains(after.text, "%"):
		c.each(inserted, "the percent sign is decoded")
		return true
	case !after.quoted && c.syntax == jsonSyntax && after.text == "null":
		c.each(inserted, "null is no value")
		return true
	}
	isPart := len(inserted) > 1 || before.text != inserted[0].placeholder
	switch {
	case at.encoded, strings.Contains(before.mark, "!!binary"), isDataURL(before.text) && strings.Contains(before.text, ";base64,"):
		c.encoded(inserted)
	case at.command, strings.ContainsAny(before.text, "\n"):
		c.command(inserted)
	case isPart:
		for i := range inserted {
			if in := &inserted[i]; !in.isLimited() && !isWord(in.text) {
				c.unconstrained(in, "it is a part of a longer text: it may have letters, digits, dots, dashes and underscores")
			}
		}
	}
	return true
}

func (c *comparison) each(inserted []insertion, detail string) {
	for i := range inserted {
		c.structure(&inserted[i], detail)
	}
}

func isDataURL(text string) bool { return strings.HasPrefix(strings.ToLower(text), "data:") }

var (
	simpleNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	// ambiguous are texts that YAML 1.1 reads as something else, or rejects: numbers, dates, and single signs.
	ambiguous = regexp.MustCompile(`^([-+]?0[box][0-9a-fA-F_]*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?|[=~]|<<)$`)
)

// isPlain reports whether all parsers of YAML read a text without quotes as the same text, or as a number, true or false.
func isPlain(e *element) bool {
	switch {
	case e.typed:
		return simpleNumber.MatchString(e.text) || e.text == "true" || e.text == "false"
	case e.inFlow && strings.ContainsAny(e.text, ":?,[]{}#&*!|>'\"%@`"):
		return false
	}
	return !ambiguous.MatchString(e.text)
}
