package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apicel "k8s.io/apiserver/pkg/cel"

	"github.com/virtward/virtward/addresses"
)

// The functions that give images and URLs their normal form. Rego has functions of the same names.
const (
	functionImage   = "virtward.image"
	functionIsImage = "virtward.isImage"
	functionURL     = "virtward.url"
	functionIsURL   = "virtward.isURL"
)

// addressTypes are the types of the results.
func addressTypes() (image, url *apicel.DeclType) {
	text, number, truth := apicel.StringType, apicel.IntType, apicel.BoolType
	image = objectType("virtward.Image", field("canonical", text), field("name", text), field("registry", text),
		field("host", text), field("port", number), field("repository", text), field("tag", text), field("digest", text),
		field("qualified", truth), field("transport", text))
	url = objectType("virtward.URL", field("canonical", text), field("scheme", text), field("authority", text),
		field("host", text), field("port", number), field("path", text), field("query", text), field("userInfo", truth))
	return image, url
}

// addressFunctions declare the functions. Each fails on a text that has no normal form, as quantity() does.
func addressFunctions(s *shapes, image, url *apicel.DeclType) []celgo.EnvOption {
	return []celgo.EnvOption{
		addressFunction(functionImage, image.CelType(), func(text string) ref.Val {
			read, err := addresses.ParseImage(text)
			return addressValue(s, &read, err)
		}),
		addressFunction(functionIsImage, celgo.BoolType, func(text string) ref.Val {
			_, err := addresses.ParseImage(text)
			return types.Bool(err == nil)
		}),
		addressFunction(functionURL, url.CelType(), func(text string) ref.Val {
			read, err := addresses.ParseURL(text)
			return addressValue(s, &read, err)
		}),
		addressFunction(functionIsURL, celgo.BoolType, func(text string) ref.Val {
			_, err := addresses.ParseURL(text)
			return types.Bool(err == nil)
		}),
	}
}

func addressValue[T any](s *shapes, read *T, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	return s.valueOf(read)
}

func addressFunction(name string, result *celgo.Type, read func(string) ref.Val) celgo.EnvOption {
	return celgo.Function(name, celgo.Overload(overload(name), []*celgo.Type{celgo.StringType}, result,
		celgo.UnaryBinding(func(arg ref.Val) ref.Val {
			text, ok := arg.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(arg)
			}
			return read(string(text))
		})))
}

func overload(function string) string { return function + "_string" }

// isAddressFunction reports whether a function is one of these.
func isAddressFunction(name string) bool {
	switch name {
	case functionImage, functionIsImage, functionURL, functionIsURL:
		return true
	}
	return false
}
