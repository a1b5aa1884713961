package templates

import (
	"fmt"
	"strconv"
	"strings"
)

// Random draws numbers: IntN is uniform in [0, n). *rand.Rand of math/rand/v2 is one.
type Random interface {
	IntN(n int) int
}

// The characters of classes, in the order in which ranges count them.
const (
	letters     = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits      = "0123456789"
	alphabet    = letters + digits
	punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

// The bounds of generated values.
const (
	maxClassLength = 255
	// maxGenerated bounds a generated value, in bytes.
	maxGenerated = 4096
	// maxDrawn bounds the characters of all generated values of a render, and maxDraws how often one is drawn until it is a
	// number. The characters that are drawn again count too.
	maxDrawn = 1 << 18
	maxDraws = 100
)

// generator is a compiled expression: literal texts and classes, in their order.
type generator []generated

// generated is a literal text, or length characters of a class.
type generated struct {
	literal string
	class   string
	length  int
}

// generatorFault is why an expression is not valid.
type generatorFault struct {
	rule string
	err  error
}

// compileGenerator compiles an expression such as vm-[a-z0-9]{8}. Text that is no class is literal, as in OpenShift's
// templates and in KubeVirt's.
func compileGenerator(expression string) (generator, *generatorFault) {
	var g generator
	total, from := 0, 0
	for at := 0; at < len(expression); {
		class, length, size := classAt(expression[at:])
		if size == 0 {
			at++
			continue
		}
		characters, fault := charactersOf(class)
		if fault != nil {
			return nil, fault
		}
		n, fault := lengthOf(length)
		if fault != nil {
			return nil, fault
		}
		if at > from {
			g = append(g, generated{literal: expression[from:at]})
		}
		g = append(g, generated{class: characters, length: n})
		total += n
		at += size
		from = at
	}
	if from < len(expression) {
		g = append(g, generated{literal: expression[from:]})
	}
	if total > maxGenerated {
		return nil, &generatorFault{RuleLengthOutOfRange, fmt.Errorf("the classes have %d characters together, at most %d are allowed", total, maxGenerated)}
	}
	if total = g.length(); total > maxGenerated {
		return nil, &generatorFault{RuleLengthOutOfRange, fmt.Errorf("the value has %d bytes, at most %d are allowed", total, maxGenerated)}
	}
	return g, nil
}

// length is the length of a value, in bytes.
func (g generator) length() int {
	length := 0
	for i := range g {
		length += len(g[i].literal) + g[i].length
	}
	return length
}

// classAt is the class with its length at the start of a text, [a-z]{8}, and how many bytes it takes; 0 if there is none.
func classAt(text string) (class, length string, size int) {
	if text == "" || text[0] != '[' {
		return "", "", 0
	}
	closing := 1
	for closing < len(text) && isClassByte(text[closing]) {
		closing++
	}
	if closing == 1 || !strings.HasPrefix(text[closing:], "]{") {
		return "", "", 0
	}
	class, rest := text[1:closing], text[closing+2:]
	n := nameLength(rest)
	if n == 0 || n == len(rest) || rest[n] != '}' {
		return "", "", 0
	}
	return class, rest[:n], closing + 2 + n + 1
}

func isClassByte(b byte) bool { return b != '_' && isNameByte(b) || b == '-' || b == '\\' }

// charactersOf are the characters of a class, each once, in the order of the alphabet.
func charactersOf(class string) (string, *generatorFault) {
	var has [128]bool
	add := func(characters string) {
		for i := range len(characters) {
			has[characters[i]] = true
		}
	}
	for i := 0; i < len(class); {
		switch named := namedClass(class[i:]); {
		case named != "":
			add(named)
			i += 2
		case i+2 < len(class) && class[i+1] == '-':
			characters, fault := rangeOf(class[i], class[i+2])
			if fault != nil {
				return "", fault
			}
			add(characters)
			i += 3
		default: // a dash or a backslash by itself means nothing
			if class[i] != '-' && class[i] != '\\' {
				add(class[i : i+1])
			}
			i++
		}
	}
	var characters []byte
	for b, ok := range has {
		if ok {
			characters = append(characters, byte(b))
		}
	}
	if len(characters) == 0 {
		return "", &generatorFault{RuleMalformedRange, fmt.Errorf("the class [%s] has no characters", class)}
	}
	return string(characters), nil
}

// namedClass are the characters of \w, \d, \a or \A at the start of a text.
func namedClass(text string) string {
	if len(text) < 2 || text[0] != '\\' {
		return ""
	}
	switch text[1] {
	case 'w':
		return alphabet + "_"
	case 'd':
		return digits
	case 'a':
		return alphabet
	case 'A':
		return punctuation
	}
	return ""
}

// rangeOf are the characters from one to another.
func rangeOf(first, last byte) (string, *generatorFault) {
	from, to := strings.IndexByte(alphabet, first), strings.IndexByte(alphabet, last)
	switch {
	case from < 0 || to < 0:
		return "", &generatorFault{RuleRangeCharacter, fmt.Errorf("the range %c-%c must start and end with a letter or a digit", first, last)}
	case from > to:
		return "", &generatorFault{RuleReversedRange, fmt.Errorf("the range %c-%c is empty: the order is a-z, A-Z, 0-9", first, last)}
	}
	return alphabet[from : to+1], nil
}

// lengthOf is the number of characters in a class's braces.
func lengthOf(text string) (int, *generatorFault) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || strings.Contains(text, "_"):
		return 0, &generatorFault{RuleMalformedLength, fmt.Errorf("the length {%s} is not a number from 1 to %d", text, maxClassLength)}
	case n < 1 || n > maxClassLength:
		return 0, &generatorFault{RuleLengthOutOfRange, fmt.Errorf("the length {%s} is not from 1 to %d", text, maxClassLength)}
	}
	return n, nil
}

// generate draws a value.
func (g generator) generate(random Random) string {
	var b strings.Builder
	for i := range g {
		b.WriteString(g[i].literal)
		for range g[i].length {
			b.WriteByte(g[i].class[random.IntN(len(g[i].class))])
		}
	}
	return b.String()
}

func hasLeadingZero(text string) bool {
	return len(text) > 1 && text[0] == '0' && strings.Trim(text, digits) == ""
}
