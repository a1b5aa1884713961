package cel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/cputime"
)

// costly are expressions that cost as much as they can for what they are charged. Their variables are those of costlyScope.
func costly() map[string]string {
	loop := func(e string) string { return "variables.n.all(i, " + e + ")" }
	return map[string]string{
		"nothing":                 loop("true"),
		"loops":                   loop("variables.n.all(j, i + j >= 0)"),
		"deep loops":              "[1, 2, 3]" + strings.Repeat(".all(a, [1, 2, 3]", 8) + ".all(x, a + x > 0)" + strings.Repeat(")", 8),
		"deep loops, outer name":  "variables.ten.all(q, variables.ten" + strings.Repeat(".all(a, [1, 2]", 9) + ".all(x, q + x > 0)" + strings.Repeat(")", 10),
		"map":                     loop("variables.ten.map(j, j * 2).size() > 0"),
		"filter":                  loop("variables.ten.filter(j, j % 2 == 0).size() > 0"),
		"exists one":              loop("variables.ten.exists_one(j, j == 2)"),
		"two variables":           loop("variables.ten.all(j, k, j + k >= 0)"),
		"transform":               loop("variables.ten.transformList(j, k, j + k).size() > 0"),
		"transform map":           loop("variables.ten.transformMap(j, k, j + k).size() > 0"),
		"transform entries":       loop("variables.ten.transformMapEntry(j, k, {string(j): k}).size() > 0"),
		"errors":                  loop("variables.ten[int(i + 100)] == 1 || true"),
		"errors of fields":        loop("dyn(vm).nothing == 1 || true"),
		"errors of keys":          loop("{'a': 1}['b'] == 1 || true"),
		"errors of division":      loop("i / 0 == 1 || true"),
		"errors of conversion":    loop("int('x' + string(i)) == 1 || true"),
		"conditions":              loop("(i > 3 ? 1 : 2) > 0 && (i > 4 || i < 5)"),
		"has":                     loop("!has(vm.spec.domain.cpu.numa.guestMappingPassthrough) || true"),
		"fields":                  loop("vm.spec.domain.devices.disks[0].disk.bus == 'virtio' || true"),
		"fields of a loop":        "variables.ten.all(n, vm.spec.domain.devices.disks.all(d, d.name != '' && has(d.disk)))",
		"objects":                 loop("dyn(vm.spec.domain).all(k, k != '')"),
		"size of an object":       loop("size(dyn(vm.spec)) > 0"),
		"comparing objects":       loop("vm.spec == vm.spec"),
		"comparing other objects": loop("vm.spec != dyn(object).spec"),
		"comparing maps":          loop("{'a': dyn([1, 2, 3]), 'b': dyn({'c': 1.0})} == {'a': dyn([1, 2, 3]), 'b': dyn({'c': 1.0})} && dyn(i) != 'a'"),
		"comparing lists":         loop("variables.words == variables.words"),
		"comparing numbers":       loop("dyn(variables.n) == dyn(variables.doubles)"),
		"literals":                loop("[1, 2, 3, 4, 5, i].size() > 0 && {'a': i, 'b': 2}.size() == 2"),
		"optionals":               loop("optional.of(i).optMap(x, x + 1).orValue(0) > 0"),
		"optional fields":         loop("vm.?spec.?domain.?cpu.?model.orValue('x') != ''"),
		"optional index":          loop("variables.n[?i].hasValue()"),
		"bind":                    loop("optional.of(i).optFlatMap(x, optional.of(x)).hasValue()"),
		"in a list":               loop("i in variables.n"),
		"a text in a list":        loop("'w1x' in variables.words || true"),
		"a list in a list":        loop("!([1] in variables.lists)"),
		"in a map":                loop("!('x' in variables.map)"),
		"in literals":             loop("!(string(i) in ['a', 'b', 'c'])"),
		"key of a map":            loop("variables.map[variables.long] == 1 || true"),
		"index of lists":          loop("variables.n.indexOf(-1) == -1 && variables.n.lastIndexOf(-1) == -1"),
		"includes":                loop("!variables.n.includes(-1)"),
		"sum":                     loop("variables.n.sum() > 0 && variables.n.max() > 0 && variables.n.isSorted()"),
		"sort numbers":            loop("variables.shuffled.sort().size() > 0"),
		"sort texts":              loop("variables.words.sort().size() > 0"),
		"sort long texts":         loop("variables.longWords.sort().size() > 0"),
		"sort a large list":       "lists.range(20000).map(i, (i * 7919) % 20011).sort().size() > 0",
		"sort by":                 loop("variables.words.sortBy(w, w).size() > 0"),
		"distinct":                loop("variables.n.distinct().size() > 0"),
		"distinct texts":          loop("variables.longWords.distinct().size() > 0"),
		"distinct lists":          loop("variables.lists.distinct().size() > 0"),
		"sets":                    loop("sets.contains(variables.n, variables.n)"),
		"sets of texts":           loop("!sets.intersects(variables.words, variables.longWords)"),
		"sets that are equal":     loop("sets.equivalent(variables.words, variables.words)"),
		"flatten":                 loop("variables.lists.flatten().size() > 0"),
		"slice":                   loop("variables.n.slice(0, 100).size() > 0 && variables.n.reverse().size() > 0"),
		"range":                   loop("lists.range(100).size() > 0"),
		"add lists":               loop("(variables.n + variables.n).size() > 0"),
		"add a chain of lists":    loop("([i]" + strings.Repeat(" + [1]", 100) + ").all(x, x >= 0)"),
		"add texts":               loop("(string(i) + variables.medium).size() > 0"),
		"compare texts":           loop("variables.long + 'a' != variables.long + 'b'"),
		"order texts":             loop("variables.long <= variables.long + 'a'"),
		"size of a text":          loop("variables.accents.size() > 0"),
		"contains":                loop("!variables.long.contains('aaaaaaaaaaaaaab')"),
		"contains medium":         loop("!variables.long.contains(variables.medium + 'x')"),
		"index of":                loop("variables.medium.indexOf('aaaaaaaab') < 0"),
		"index of long":           loop("variables.medium.indexOf(variables.medium.substring(500) + 'b') < 0"),
		"last index of":           loop("variables.medium.lastIndexOf('baaaaaaaaaaaa') < 0"),
		"char at":                 loop("variables.medium.charAt(5) == 'a'"),
		"substring":               loop("variables.accents.substring(5) != ''"),
		"lower and upper":         loop("variables.accents.lowerAscii() != variables.medium.upperAscii()"),
		"reverse a text":          loop("variables.words.reverse().size() > 0"),
		"quote":                   loop("strings.quote(variables.accents) != ''"),
		"trim":                    loop("variables.spaces.trim() == ''"),
		"split":                   loop("variables.commas.split(',').size() > 0"),
		"split into letters":      loop("variables.medium.split('').size() > 0"),
		"split into many":         loop("variables.medium.split('x', 10000).size() > 0"),
		"join":                    loop("variables.words.join(', ') != ''"),
		"join long":               loop("variables.words.join(variables.medium) != ''"),
		"replace":                 loop("variables.medium.replace('a', 'bc') != ''"),
		"replace nothing":         loop("variables.medium.replace('', 'bc') != ''"),
		"format":                  "'%s %d %f'.format([1, 2, 3.5]) != '' && lists.range(20000).all(i, '%s %d %f'.format([i, i, 1.5]) != '')",
		"format f":                loop("'%f'.format([1.5]) != ''"),
		"format e":                loop("'%e'.format([1.5]) != ''"),
		"format d":                loop("'%d %d %d %d'.format([i, i, i, i]) != ''"),
		"format x":                loop("'%x %X %o %b'.format([i, i, i, i]) != ''"),
		"format x of text":        loop("'%x'.format([variables.medium]) != ''"),
		"format s of a list":      loop("'%s'.format([variables.n]) != ''"),
		"format s of doubles":     loop("'%s'.format([variables.doubles]) != ''"),
		"format s of a map":       loop("'%s'.format([variables.map]) != ''"),
		"format s of an object":   loop("'%s'.format([variables.vm]) != ''"),
		"format s of times":       loop("'%s %s'.format([timestamp('2024-01-02T03:04:05Z'), duration('1h')]) != ''"),
		"format digits":           loop("'%.1000f'.format([1.5]) != ''"),
		"format errors":           loop("'%d'.format([variables.medium == 'x' ? dyn(1) : dyn('y')]) != '' || true"),
		"format percents":         loop("'%%%%%%%%%%%%'.format([]) != ''"),
		"conversions":             loop("string(double(string(i))) != ''"),
		"conversion of digits":    loop("double(variables.digits) > 0.0 || true"),
		"int of a long text":      loop("int(variables.digits) > 0 || true"),
		"bytes":                   loop("string(bytes(variables.accents)) != ''"),
		"timestamps":              loop("timestamp('2024-01-02T03:04:05Z') + duration('1h') > timestamp('2024-01-02T03:04:05Z')"),
		"timestamp errors":        loop("timestamp(variables.medium) > timestamp('2024-01-02T03:04:05Z') || true"),
		"computed timestamps":     loop("timestamp('2024-01-02T03:04:0' + string(i % 10) + 'Z').getFullYear() > 0"),
		"durations":               loop("duration(string(i) + 'h3m2s').getHours() >= 0"),
		"duration of a long text": loop("duration(variables.digits) > duration('1h') || true"),
		"time zones":              loop("timestamp('2024-01-02T03:04:05Z').getHours('America/New_York') > 0"),
		"no time zones":           loop("timestamp('2024-01-02T03:04:05Z').getHours('Nowhere/X') > 0 || true"),
		"offsets":                 loop("timestamp('2024-01-02T03:04:05Z').getHours('+01:00') > 0 || true"),
		"quantities":              loop("quantity(string(i) + 'Gi').isLessThan(quantity('1Gi')) || true"),
		"quantity arithmetic":     loop("quantity('1.5Gi').add(quantity('100m')).sub(1).compareTo(quantity('3')) != 0"),
		"long quantities":         loop("quantity(variables.hundred).isGreaterThan(quantity('1'))"),
		"long quantity sums":      loop("variables.q.add(variables.q).compareTo(variables.q) != 0"),
		"quantity of digits":      loop("isQuantity(variables.digits) || true"),
		"quantity integers":       loop("!variables.q.isInteger() || variables.q.asApproximateFloat() > 0.0"),
		"semver":                  loop("semver('1.2.' + string(i)).isGreaterThan(semver('1.2.3-alpha.1')) || true"),
		"long semver":             loop("isSemver(variables.version)"),
		"long semver equal":       loop("variables.v == variables.v && variables.textVersion == variables.textVersion"),
		"long quantities equal":   loop("variables.q == variables.q2"),
		"key of annotations":      loop("vm.metadata.annotations[vm.metadata.annotations['long']] == '' || true"),
		"key that is optional":    loop("vm.metadata.annotations[?vm.metadata.annotations['long']].hasValue() || true"),
		"long semver compared":    loop("variables.v.compareTo(variables.v) == 0"),
		"ip":                      loop("ip('10.0.0.' + string(i % 256)).isGlobalUnicast()"),
		"ip canonical":            loop("ip.isCanonical('2001:db8::1') && string(ip('2001:db8::1')) != ''"),
		"cidr":                    loop("cidr('10.0.0.0/8').containsIP('10.0.0.1') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')"),
		"no ip":                   loop("isIP(variables.medium) || isCIDR(variables.medium) || true"),
		"url":                     loop("url('https://a.example:80/b/c?d=e').getHost() != ''"),
		"url query":               loop("url(variables.link).getQuery().size() > 0"),
		"url escapes":             loop("url(variables.escaped).getEscapedPath() != ''"),
		"no url":                  loop("isURL(variables.accents) || true"),
		"urls compared":           loop("variables.u == url(vm.metadata.annotations['escaped']) || variables.u == variables.u"),
		"optional urls compared":  loop("optional.of(variables.u) == optional.of(variables.u)"),
		"urls of users compared":  loop("variables.longUser == variables.longUser"),
		"isURL":                   loop("isURL('https://a.example:80/b/c?d=e')"),
		"images":                  loop("virtward.isImage('quay.io/a/b:c') && virtward.image('quay.io/a/b:c').tag == 'c'"),
		"long images":             loop("virtward.isImage(variables.thousand)"),
		"long paths of images":    loop("virtward.isImage(variables.path) || true"),
		"urls of our own":         loop("virtward.isURL('https://a.example:80/b/c?d=e') && virtward.url('https://a.example:80/b/c?d=e').port == 80"),
		"long urls of our own":    loop("virtward.isURL(variables.longURL) || true"),
		"formats":                 loop("!format.dns1123Subdomain().validate(variables.thousand).hasValue() || true"),
		"formats of long texts":   loop("format.uri().validate(variables.accents).hasValue() || format.dns1123Label().validate(variables.medium).hasValue()"),
		"formats by name":         loop("format.named('date').value().validate('2024-01-02').hasValue() || true"),
		"formats of data":         loop("!format.byte().validate(variables.medium).hasValue() || true"),
		"formats of labels":       loop("!format.labelValue().validate(variables.thousand).hasValue() || !format.qualifiedName().validate(variables.thousand).hasValue() || true"),
		"matches":                 loop("!variables.medium.matches('(a|b|c|d)*x')"),
		"matches often":           loop("!'aaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')"),
		"matches many states":     loop("!variables.medium.matches('" + strings.Repeat("(a?){30}", 5) + "$x')"),
		"matches classes":         loop("variables.accents.matches('^([a-zà-ü]|[0-9é])*$')"),
		"matches unicode":         loop("!variables.accents.matches('(\\\\pL|\\\\pN)*x')"),
		"matches backtracking":    loop("!variables.medium.matches('(a+)+b')"),
		"matches any":             loop("!variables.medium.matches('.*.*.*=b')"),
		"matches ignoring case":   loop("!variables.accents.matches('(?i)(é|à|a)*x')"),
		"matches words":           loop("!variables.commas.matches('(\\\\b[a-z]+\\\\b,?)*;')"),
		"computed patterns":       loop("!'x'.matches(string(i) + '(a|b){20}')"),
		"computed large patterns": loop("!'x'.matches(string(i) + '((a|b){30}){30}')"),
		"computed classes":        loop("!'x'.matches(string(i) + '\\\\pL\\\\pN[^\\\\x00-\\\\x{10FFFF}]?\\\\p{Han}')"),
		"computed folds":          loop("!'x'.matches(string(i) + '(?i)abcdefghijklmnopqrstuvwxyz')"),
		"computed names":          loop("!'x'.matches(string(i) + '(?i)\\\\pL\\\\pL\\\\pL\\\\pL')"),
		"find":                    loop("variables.medium.find('[a-c]+x') == ''"),
		"find all":                loop("variables.commas.findAll('[a-z]+').size() > 0"),
		"find all letters":        "variables.medium.findAll('a').size() > 0",
		"find all of many":        "variables.medium.findAll('a*b|a').size() > 0",
		"find few":                loop("variables.commas.findAll('[a-z]+', 3).size() > 0"),
		"authorizer":              loop("authorizer.group('').resource('pods').namespace('a').name('b').subresource('c').check('get').allowed() || true"),
		"authorizer built":        loop("authorizer.group('').resource('pods').namespace('a').name(variables.long).check('get').allowed() || true"),
		"label selectors":         loop("dyn(authorizer.group('').resource('pods').labelSelector('a in (b, c), d=e').fieldSelector('a=b')) != 1"),
		"long selectors":          loop("dyn(authorizer.group('').resource('pods').labelSelector(variables.selector)) != 1"),
		"service accounts":        loop("dyn(authorizer.serviceAccount('a', 'b').path('/healthz')) != 1"),
		"types":                   loop("type(i) == int && type(dyn(variables.map)) != type(1)"),
		"params":                  loop("params.list.all(p, p.name != '')"),
		"request":                 loop("request.userInfo.username == 'jane' && request.kind.kind != ''"),
		"variables":               loop("variables.a9 == variables.a9"),
		"wide":                    loop(strings.Repeat("i >= 0 && ", 200) + "true"),
		"wrappers":                loop("google.protobuf.StringValue{value: 'x'} == 'x'"),
		"timestamps as texts":     loop("string(timestamp(i)) != '' && string(duration('1s')) != ''"),
		"nulls":                   loop("null == null && dyn(i) != null"),
		"bytes compared":          loop("bytes(variables.long) != b'a'"),
		"bytes added":             loop("(bytes(variables.medium) + b'x').size() > 0"),
		"uints":                   loop("uint(i) * 2u >= 0u && uint(i) % 3u < 4u"),
		"doubles":                 loop("double(i) * 2.5 / 3.0 >= 0.0"),
		"texts to doubles":        loop("double('1.7976931348623157e308') > 0.0 && double('4.9406564584124654e-324') > 0.0"),
	}
}

func costlyScope(t testing.TB) (*Scope, *Documents) {
	t.Helper()
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	variables := []Expression{
		{"n", "lists.range(300)"},
		{"ten", "lists.range(10)"},
		{"doubles", "lists.range(300).map(i, double(i))"},
		{"words", "lists.range(300).map(i, 'w' + string((i * 7919) % 307))"},
		{"shuffled", "lists.range(300).map(i, (i * 7919) % 307)"},
		{"longWords", "lists.range(200).map(i, vm.metadata.annotations['prefix'] + string((i * 7919) % 307))"},
		{"lists", "lists.range(100).map(i, [i, i])"},
		{"map", "lists.range(50).transformMapEntry(i, v, {string(v) + 'key': v})"},
		{"vm", "{'a': dyn(vm.metadata.name), 'b': dyn([1, 2, 3]), 'c': dyn({'d': 1.5})}"},
		{"long", "vm.metadata.annotations['long']"},
		{"medium", "vm.metadata.annotations['medium']"},
		{"accents", "vm.metadata.annotations['accents']"},
		{"spaces", "vm.metadata.annotations['spaces']"},
		{"commas", "vm.metadata.annotations['commas']"},
		{"digits", "vm.metadata.annotations['digits']"},
		{"hundred", "vm.metadata.annotations['hundred']"},
		{"q", "quantity(vm.metadata.annotations['hundred'])"},
		{"version", "vm.metadata.annotations['version']"},
		{"v", "semver(vm.metadata.annotations['version'])"},
		{"textVersion", "semver('1.2.3-' + vm.metadata.annotations['long'])"},
		{"q2", "quantity(vm.metadata.annotations['hundred'] + '5')"},
		{"u", "url('http://a/?' + vm.metadata.annotations['long'])"},
		{"longUser", "url('http://' + vm.metadata.annotations['long'] + '@a/')"},
		{"link", "vm.metadata.annotations['link']"},
		{"escaped", "vm.metadata.annotations['escaped']"},
		{"thousand", "vm.metadata.annotations['thousand']"},
		{"path", "vm.metadata.annotations['path']"},
		{"longURL", "vm.metadata.annotations['longURL']"},
		{"selector", "vm.metadata.annotations['selector']"},
		{"a0", "[1, 2]"},
	}
	for i := range 9 {
		variables = append(variables, Expression{fmt.Sprintf("a%d", i+1), fmt.Sprintf("[variables.a%d, variables.a%d]", i, i)})
	}
	s, issues := e.Scope(ScopeOptions{Kinds: []string{apikinds.VirtualMachine}, Variables: variables, Values: map[string]any{"list": func() []any {
		var all []any
		for i := range 100 {
			all = append(all, map[string]any{"name": fmt.Sprint("p", i)})
		}
		return all
	}()}})
	if s == nil {
		t.Fatal(issues)
	}
	vm := build.VM("db").Obj()
	vmi := build.VMI("db").Obj()
	vmi.Spec = *build.Typical("db").Obj().Spec.DeepCopy()
	repeat := strings.Repeat
	vmi.Annotations = map[string]string{
		"long": repeat("a", 100_000), "medium": repeat("a", 2000), "accents": repeat("é", 1000), "spaces": repeat(" ", 2000), "commas": repeat("ab,", 700),
		"digits": repeat("7", 5000), "hundred": repeat("7", 100) + ".5", "version": "1.2.3-" + repeat("a.", 500) + "b", "link": "http://a/?" + repeat("a&", 1000),
		"escaped": "http://a/" + repeat("%41", 600), "thousand": repeat("a", 1000), "path": "quay.io/" + repeat("a/", 480) + "b", "longURL": "http://a/" + repeat("%41", 300),
		"selector": "a in (" + repeat("b,", 500) + "c)", "prefix": repeat("p", 300),
	}
	d := &Documents{Kind: apikinds.VirtualMachine, Object: vm, VM: vmi}
	d.Request.Operation, d.Request.UserInfo.Username, d.Request.Kind.Kind = "CREATE", "jane", "VirtualMachine"
	return s, d
}

// TestUnitsAreTime evaluates expressions that cost as much as they can for what they are charged, and holds their CPU time
// against the charge.
func TestUnitsAreTime(t *testing.T) {
	s, d := costlyScope(t)
	expressions := costly()
	for _, name := range slices.Sorted(maps.Keys(expressions)) {
		t.Run(name, func(t *testing.T) {
			p, issues := s.Compile(expressions[name], Any)
			if p == nil {
				t.Fatal(issues)
			}
			a := s.Activation(d)
			evaluate := func() (uint64, error) {
				b := NewBudget()
				_, err := p.Eval(a, b)
				return PolicyLimit - b.Left(), err
			}
			_, _ = evaluate() // the variables
			units, err := evaluate()
			if err != nil && !errors.Is(err, ErrExpensive) && !errors.Is(err, ErrBudget) && !errors.Is(err, ErrNotAuditable) {
				t.Fatal(err)
			}
			cputime.Check(t, units, func() { _, _ = evaluate() })
		})
	}
}

// TestChainsOfOptionalMacros holds that a chain that repeats itself is rejected before it is compiled.
func TestChainsOfOptionalMacros(t *testing.T) {
	s, _ := costlyScope(t)
	for _, macro := range []string{".optMap(x, x)", ".optFlatMap(x, optional.of(x))"} {
		p, issues := s.Compile("optional.of(1)"+strings.Repeat(macro, 20)+".hasValue()", Bool)
		if p != nil || len(issues) != 1 || !strings.Contains(issues[0].Message, "has 20 calls of optMap and optFlatMap: at most 5") {
			t.Errorf("%s: %v", macro, issues)
		}
		if p, issues := s.Compile("optional.of(1)"+strings.Repeat(macro, MaxOptionalMacros)+".hasValue()", Bool); p == nil {
			t.Errorf("%s: %v", macro, issues)
		}
	}
}

// TestEachCallIsChargedBefore holds that calls that cost nearly as much as an expression may do not add up.
func TestEachCallIsChargedBefore(t *testing.T) {
	s, d := costlyScope(t)
	for expression, want := range map[string]error{
		"lists.range(20000).all(i, '%s %d %f'.format([i, i, 1.5]) != '')":             ErrExpensive,
		"lists.range(20000).all(i, '%s %d %f'.format([i, i, 1.5]) != '') || true":     ErrExpensive,
		"variables.n.all(i, sets.contains(variables.n, variables.n)) || true":         ErrExpensive,
		"variables.medium.matches('(a|b|c|d)*x') || true":                             nil,
		"variables.n.all(i, variables.medium.matches('(a|b|c|d)*x')) || true":         nil,
		"variables.n.all(i, !variables.medium.matches('((a|b){15}){15}x')) || true":   ErrExpensive,
		"variables.n.all(i, !virtward.isImage(variables.path + string(i))) || true":   ErrExpensive,
		"variables.n.all(i, variables.medium.split('x', 1000000).size() > 0) || true": ErrBudget,
		"variables.n.all(i, variables.medium.indexOf(variables.medium + 'x') < 0)":    ErrExpensive,
		"variables.n.all(i, variables.n.map(j, -j).sort().size() > 0)":                ErrExpensive,
	} {
		p, issues := s.Compile(expression, Bool)
		if p == nil {
			t.Fatal(issues)
		}
		b := NewBudgetOf(PolicyLimit, 64*MemoryLimit)
		if strings.Contains(expression, "split") {
			b = NewBudget()
		}
		_, err := p.Eval(s.Activation(d), b)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", expression, err, want)
		}
		if spent := PolicyLimit - b.Left(); spent > 2*ExpressionLimit {
			t.Errorf("%s: it costs %d", expression, spent)
		}
	}
}
