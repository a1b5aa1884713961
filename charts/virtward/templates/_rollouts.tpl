{{- define "virtward.rollouts" -}}virtward-rollouts{{- end }}

{{- define "virtward.rolloutsSelector" -}}
app.kubernetes.io/name: virtward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: rollouts
{{- end }}

{{- define "virtward.rolloutsLabels" -}}
{{ include "virtward.rolloutsSelector" . }}
{{ omit (include "virtward.labels" . | fromYaml) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml }}
{{- end }}
