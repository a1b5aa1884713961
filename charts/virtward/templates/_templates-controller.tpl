{{- define "virtward.templates" -}}virtward-templates{{- end }}

{{- define "virtward.templatesSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: templates
{{- end }}

{{- define "virtward.templatesLabels" -}}
{{ include "virtward.templatesSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}
