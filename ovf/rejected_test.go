package ovf

import (
	"strconv"
	"strings"
)

type rejection struct {
	text   string
	reason Reason
}

// rejected are documents that Parse rejects.
func rejected() map[string]rejection {
	var attributes strings.Builder
	for i := range MaxAttributes + 1 {
		attributes.WriteString(" a" + strconv.Itoa(i) + `="1"`)
	}
	long := strings.Repeat("a", MaxAttribute+1)
	return map[string]rejection{
		"nothing":                       {"", InvalidXML},
		"text":                          {"hello", InvalidXML},
		"binary":                        {"\x00\x01\x02", InvalidXML},
		"another root":                  {"<html/>", InvalidDescriptor},
		"an element that is open":       {"<Envelope><References>", InvalidXML},
		"an element that is not closed": {"<Envelope><References></Envelope>", InvalidXML},
		"a second root":                 {"<Envelope/><Envelope/>", InvalidXML},
		"text after the root":           {"<Envelope/>text", InvalidXML},
		"text before the root":          {"text<Envelope/>", InvalidXML},
		"an attribute twice":            {`<Envelope a="1" a="2"/>`, InvalidXML},
		"an attribute by two prefixes":  {`<Envelope xmlns:a="urn:x" xmlns:b="urn:x" a:c="1" b:c="2"/>`, InvalidXML},
		"a prefix without declaration":  {`<Envelope><vmw:Config/></Envelope>`, InvalidXML},
		"a prefix of an attribute":      {`<Envelope vmw:a="1"/>`, InvalidXML},
		"a DOCTYPE":                     {`<!DOCTYPE Envelope><Envelope/>`, ForbiddenXML},
		"an external entity":            {`<!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/passwd">]><Envelope>&x;</Envelope>`, ForbiddenXML},
		"a bomb of entities":            {`<!DOCTYPE e [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Envelope>&b;</Envelope>`, ForbiddenXML},
		"an entity without DOCTYPE":     {`<Envelope>&x;</Envelope>`, InvalidXML},
		"a second declaration":          {`<Envelope><?xml version="1.0"?></Envelope>`, InvalidXML},
		"an unknown encoding":           {`<?xml version="1.0" encoding="x-mine"?><Envelope/>`, InvalidXML},
		"too many bytes":                {"<Envelope>" + strings.Repeat(" ", MaxBytes) + "</Envelope>", LimitExceeded},
		"too many elements":             {"<Envelope>" + strings.Repeat("<a/>", MaxElements) + "</Envelope>", LimitExceeded},
		"too many levels":               {"<Envelope>" + strings.Repeat("<a>", MaxDepth) + strings.Repeat("</a>", MaxDepth) + "</Envelope>", LimitExceeded},
		"too many attributes":           {"<Envelope" + attributes.String() + "/>", LimitExceeded},
		"attributes without an end":     {"<Envelope" + strings.Repeat(` a=""`, maxAssignments+1), LimitExceeded},
		"a long attribute":              {`<Envelope><ProductSection class="` + long + `"/></Envelope>`, LimitExceeded},
		"a long namespace":              {`<Envelope xmlns:value="` + long + `"/>`, LimitExceeded},
	}
}
