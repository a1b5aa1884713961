package templates

import (
	"strings"
	"sync"
)

// textForm says what reads a text of a VirtualMachine after it is rendered, and so what a value in it can change. Where
// approval is required, the form decides which values a text takes.
type textForm int

const (
	// plainText is one value of Kubernetes, such as a name: the API that reads it validates it as a whole.
	plainText textForm = iota
	// referenceText has parts, such as a URL, an image, a path or a qualified name. A value that is a part of it must be a
	// word.
	referenceText
	// commandText is read in a form that is not known: a script, arguments of a kernel, data of a guest's firmware.
	commandText
	// encodedText is base64: the characters that are validated are not those that are used.
	encodedText
	// userDataText and networkDataText are those of cloud-init. User data can be of Ignition, too.
	userDataText
	networkDataText
	// annotationText is an annotation, of which the consumer decides the form.
	annotationText
)

func (f textForm) String() string {
	return [...]string{"plain", "reference", "command", "encoded", "user data", "network data", "annotation"}[f]
}

// textForms are the forms of all texts that are not plain, by their fields in the VirtualMachine: [] is each element of a
// list, {} each value of a map. A test lists the form of every text that KubeVirt has.
var textForms = sync.OnceValue(func() map[string]textForm {
	const pod = "spec.template.spec."
	forms := map[string]textForm{
		"metadata.annotations{}":                            annotationText,
		"spec.template.metadata.annotations{}":              annotationText,
		"spec.dataVolumeTemplates[].metadata.annotations{}": annotationText,

		pod + "domain.firmware.kernelBoot.kernelArgs": commandText,
		pod + "livenessProbe.exec.command[]":          commandText,
		pod + "readinessProbe.exec.command[]":         commandText,
		// A guest takes instructions from a disk with the label cidata, config-2 or OEMDRV.
		pod + "volumes[].configMap.volumeLabel":   commandText,
		pod + "volumes[].downwardAPI.volumeLabel": commandText,
		pod + "volumes[].secret.volumeLabel":      commandText,
	}
	for _, field := range []string{
		"domain.devices.gpus[].deviceName", "domain.devices.hostDevices[].deviceName",
		"domain.devices.interfaces[].dhcpOptions.bootFileName", "domain.devices.interfaces[].dhcpOptions.privateOptions[].value",
		"domain.devices.interfaces[].dhcpOptions.tftpServerName",
		"domain.firmware.kernelBoot.container.image", "domain.firmware.kernelBoot.container.initrdPath", "domain.firmware.kernelBoot.container.kernelPath",
		"livenessProbe.httpGet.httpHeaders[].value", "livenessProbe.httpGet.path", "readinessProbe.httpGet.httpHeaders[].value", "readinessProbe.httpGet.path",
		"networks[].multus.networkName",
		"volumes[].containerDisk.image", "volumes[].containerDisk.path", "volumes[].containerPath.path", "volumes[].downwardAPI.fields[].fieldRef.fieldPath",
		"volumes[].downwardAPI.fields[].path", "volumes[].hostDisk.path",
	} {
		forms[pod+field] = referenceText
	}
	// cloud-init and systemd take instructions from the identity of the hardware: ds=nocloud;s=http://….
	for _, identity := range []string{"firmware.serial", "chassis.asset", "chassis.manufacturer", "chassis.serial", "chassis.sku", "chassis.version"} {
		forms[pod+"domain."+identity] = commandText
	}
	for _, cloudInit := range []string{"volumes[].cloudInitConfigDrive.", "volumes[].cloudInitNoCloud."} {
		forms[pod+cloudInit+"userData"], forms[pod+cloudInit+"userDataBase64"] = userDataText, encodedText
		forms[pod+cloudInit+"networkData"], forms[pod+cloudInit+"networkDataBase64"] = networkDataText, encodedText
	}
	for _, source := range []string{"http.url", "http.extraHeaders[]", "http.checksum", "s3.url", "gcs.url", "registry.url", "registry.imageStream", "imageio.url", "imageio.diskId", "vddk.url", "vddk.backingFile", "vddk.initImageURL"} {
		forms["spec.dataVolumeTemplates[].spec.source."+source] = referenceText
	}
	return forms
})

// formOf is the form of the text at a path of the VirtualMachine.
func formOf(path []step) textForm { return textForms()[patternOf(path)] }

// patternOf is a path without indices and keys.
func patternOf(path []step) string {
	var b strings.Builder
	for i, s := range path {
		switch {
		case s.kind == indexStep:
			b.WriteString("[]")
		case s.kind == keyStep:
			b.WriteString("{}")
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// textSyntax is how a text is parsed.
type textSyntax int

const (
	// unknownSyntax is that of scripts, MIME, templates of jinja, and everything else that is not parsed.
	unknownSyntax textSyntax = iota
	yamlSyntax
	jsonSyntax
	// wordSyntax is that of an annotation of a component: a value must be a word.
	wordSyntax
	// freeSyntax is that of an annotation for people.
	freeSyntax
)

const (
	// hooksDomain is that of the annotations that add containers to the pod of a virtual machine.
	hooksDomain = "hooks.kubevirt.io"
	// cloudConfig is the first word of user data in YAML.
	cloudConfig = "#cloud-config"
)

// syntaxOf is the syntax of a text of a template. key is the last name in its path.
func (f textForm) syntaxOf(key, text string) textSyntax {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	braces := strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
	switch f {
	case userDataText:
		header, _, _ := strings.Cut(trimmed, "\n")
		switch words := strings.Fields(header); {
		case braces:
			return jsonSyntax
		case len(words) > 0 && words[0] == cloudConfig:
			return yamlSyntax
		}
	case networkDataText:
		if braces {
			return jsonSyntax
		}
		return yamlSyntax
	case annotationText:
		domain, _, hasDomain := strings.Cut(key, "/")
		switch {
		case domain == hooksDomain:
			return unknownSyntax
		case braces:
			return jsonSyntax
		case strings.ContainsAny(text, "\n"):
			return yamlSyntax
		case hasDomain:
			return wordSyntax
		}
		return freeSyntax
	}
	return unknownSyntax
}

// commandKeys are the names in cloud-config, in Ignition and in annotations whose values are commands, scripts, files,
// permissions, or sources of what runs. What is below them is a command.
var commandKeys = sync.OnceValue(func() map[string]bool {
	keys := map[string]bool{}
	for _, key := range strings.Fields(`
		ansible apk_repos apt bootcmd chef cloud_config_modules cloud_final_modules cloud_init_modules disk_setup doas drivers
		fs_setup landscape log_cfgs lxd mcollective merge_how merge_type mounts output packages phone_home power_state puppet
		random_seed reporting rh_subscription rsyslog runcmd salt_minion shell snap spacewalk sudo swap system_info
		ubuntu_advantage ubuntu_pro vendor_data wireguard write_files yum_repo_dir yum_repos zypper
		args cmd command commands config content contents dropins entrypoint exec inline kernelArguments script source
		storage systemd`) {
		keys[key] = true
	}
	return keys
})

// isWord reports whether a value is one word for whatever reads it: it begins no option, it separates nothing, and it is no
// step of a path.
func isWord(text string) bool {
	for i := range len(text) {
		if b := text[i]; !isNameByte(b) && (i == 0 || b != '-' && b != '.') {
			return false
		}
	}
	return text != "" && !strings.Contains(text, "..")
}
