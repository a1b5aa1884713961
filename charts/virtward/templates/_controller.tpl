{{- define "virtward.controller" -}}virtward-controller{{- end }}

{{- define "virtward.controllerSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "virtward.controllerLabels" -}}
{{ include "virtward.controllerSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}

{{- define "virtward.export" -}}virtward-export{{- end }}

{{- define "virtward.librarySelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: library
{{- end }}

{{- define "virtward.libraryLabels" -}}
{{ include "virtward.librarySelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}

{{- define "virtward.exportSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: export
{{- end }}

{{- define "virtward.exportLabels" -}}
{{ include "virtward.exportSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}
