package validators

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// cloudInitVolume is a spec whose second volume has the given data.
func cloudInitVolume(source, data string) string {
	return fmt.Sprintf(`{"volumes":[{"name":"root","containerDisk":{"image":"x"}},{"name":"ci","%s":{%s}}]}`, source, data)
}

func TestCloudInit(t *testing.T) {
	full, tooMuch := strings.Repeat("u", 2048), strings.Repeat("u", 2049)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	runCases(t, cloudInitRules(), OnSpec, []ruleCase{
		{name: "no volumes", spec: `{}`},
		{name: "user data", spec: cloudInitVolume("cloudInitNoCloud", `"userData":"`+full+`"`)},
		{name: "encoded user data", spec: cloudInitVolume("cloudInitConfigDrive", `"userDataBase64":"`+encode(full)+`"`)},
		{name: "network data only", spec: cloudInitVolume("cloudInitNoCloud", `"networkData":"version: 2"`)},
		{name: "encoded network data", spec: cloudInitVolume("cloudInitNoCloud", `"networkDataBase64":"`+encode("version: 2")+`"`)},
		{name: "secrets", spec: cloudInitVolume("cloudInitConfigDrive", `"secretRef":{"name":"s"},"networkDataSecretRef":{"name":"s"}`)},
		{
			name: "no data",
			spec: cloudInitVolume("cloudInitNoCloud", ``),
			want: []string{
				`cloudinit-has-data: spec.volumes[1].cloudInitNoCloud: Invalid value: has no data, and names no secret with data`,
			},
		},
		{
			name: "secrets without names",
			spec: cloudInitVolume("cloudInitConfigDrive", `"secretRef":{"name":""},"networkDataSecretRef":{"name":""}`),
			want: []string{
				`cloudinit-has-data: spec.volumes[1].cloudInitConfigDrive: Invalid value: has no data, and names no secret with data`,
			},
		},
		{
			name: "several sources",
			spec: cloudInitVolume("cloudInitNoCloud", `"userData":"hunter2","userDataBase64":"dXV1","secretRef":{"name":"s"},"networkData":"n","networkDataBase64":"dXV1"`),
			want: []string{
				`cloudinit-one-source: spec.volumes[1].cloudInitNoCloud: Invalid value: has 3 sources of user data; at most one of userData, userDataBase64 and secretRef can be set`,
				`cloudinit-one-source: spec.volumes[1].cloudInitNoCloud: Invalid value: has 2 sources of network data; at most one of networkData, networkDataBase64 and networkDataSecretRef can be set`,
			},
		},
		{
			name: "no base64",
			spec: cloudInitVolume("cloudInitConfigDrive", `"userDataBase64":"YWJjZA","networkDataBase64":"%%"`),
			want: []string{
				`cloudinit-base64: spec.volumes[1].cloudInitConfigDrive.networkDataBase64: Invalid value: the network data is not valid base64: illegal base64 data at input byte 0`,
				`cloudinit-base64: spec.volumes[1].cloudInitConfigDrive.userDataBase64: Invalid value: the user data is not valid base64: illegal base64 data at input byte 4`,
			},
		},
		{
			name: "too much",
			spec: cloudInitVolume("cloudInitNoCloud", `"userData":"`+tooMuch+`","networkDataBase64":"`+encode(tooMuch)+`"`),
			want: []string{
				`cloudinit-size: spec.volumes[1].cloudInitNoCloud: Invalid value: the user data has 2049 bytes, more than 2048`,
				`cloudinit-size: spec.volumes[1].cloudInitNoCloud: Invalid value: the network data has 2049 bytes, more than 2048`,
			},
		},
		{
			name: "too much on a config drive",
			spec: cloudInitVolume("cloudInitConfigDrive", `"userDataBase64":"`+encode(tooMuch)+`","networkData":"`+tooMuch+`"`),
			want: []string{
				`cloudinit-size: spec.volumes[1].cloudInitConfigDrive: Invalid value: the user data has 2049 bytes, more than 2048`,
				`cloudinit-size: spec.volumes[1].cloudInitConfigDrive: Invalid value: the network data has 2049 bytes, more than 2048`,
			},
		},
	})
}
