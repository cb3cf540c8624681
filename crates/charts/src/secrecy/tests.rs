use super::*;

const TEMPLATE: &str = r#"
{{ fail (printf "password %q is too short" .Values.password) }}
{{ required "a password is needed" .Values.nope }}
{{ mustFromJson .Values.password | toYaml }}
{{ tpl .Values.source . }} {{ include "c.name" . }}
{{ .Values.service.port }} {{ fail .Values.password }}
"#;

fn shown(words: &str) -> String {
    let mut message = Message::of(words);
    message.learn("c/templates/a.yaml", TEMPLATE);
    message.into_text()
}

/// Messages of helm 4.3, with the value `hunter2 is`, and the shown text. `*` is the note that texts
/// are not shown.
#[test]
fn only_texts_of_the_chart_and_of_helm_are_quoted() {
    for (words, expected) in [
        (
            "Error: execution error at (c/templates/a.yaml:1:3): hunter2 is\n\nUse --debug flag",
            "execution error at (c/templates/a.yaml:1:3): …*",
        ),
        (
            "level=WARN msg=\"hunter2\"\nError: execution error at (c/templates/a.yaml:1:3): a\nError: hunter2 is",
            "execution error at (c/templates/a.yaml:1:3): …*",
        ),
        (
            "Error: execution error at (c/templates/a.yaml:2:4): password \"hunter2 is\" is too short",
            "execution error at (c/templates/a.yaml:2:4): … is too short*",
        ),
        (
            "Error: execution error at (c/templates/a.yaml:3:4): a password is needed",
            "execution error at (c/templates/a.yaml:3:4): a password is needed",
        ),
        (
            "Error: template: c/templates/a.yaml:4:3: executing \"c/templates/a.yaml\" at <mustFromJson \
             .Values.password>: error calling mustFromJson: invalid character 'h' looking for beginning of value",
            "template: c/templates/a.yaml:4:3: executing \"c/templates/a.yaml\" at <mustFromJson \
             .Values.password>: error calling mustFromJson: invalid character … looking for beginning of value*",
        ),
        (
            "Error: c/templates/a.yaml:1:16\n  executing \"c/templates/a.yaml\" at <.Values.password>:\n    \
             range can't iterate over hunter2 is",
            "c/templates/a.yaml:1:16\n  executing \"c/templates/a.yaml\" at <.Values.password>:\n    \
             range can't iterate over …*",
        ),
        (
            "Error: template: c/templates/a.yaml:1:3: executing \"c/templates/a.yaml\" at <tpl .Values.source .>: \
             error calling tpl: cannot parse template \"{{ hunter2 | b }}\": template: gotpl:1: function \
             \"hunter2\" not defined",
            "template: c/templates/a.yaml:1:3: executing \"c/templates/a.yaml\" at <tpl .Values.source .>: \
             error calling tpl: cannot parse template … template: … not defined*",
        ),
        (
            "Error: template: c/templates/a.yaml:6:3: executing \"c/templates/a.yaml\" at <.Values.service.port>: \
             nil pointer evaluating interface {}.port",
            "template: c/templates/a.yaml:6:3: executing \"c/templates/a.yaml\" at <.Values.service.port>: \
             nil pointer evaluating interface {}.port",
        ),
        (
            "Error: YAML parse error on c/templates/a.yaml: error converting YAML to JSON: yaml: line 2: mapping \
             values are not allowed in this context",
            "YAML parse error on c/templates/a.yaml: error converting YAML to JSON: yaml: line 2: mapping \
             values are not allowed in this context",
        ),
        ("hunter2", "…*"),
        ("", "helm printed no error"),
    ] {
        let expected = expected.replace('*', " (texts that may contain values are not shown)");
        assert_eq!(shown(words), expected, "{words}");
    }
}

#[test]
fn errors_of_schemas_have_paths_and_rules() {
    let words = r"Error: values don't meet the specifications of the schema(s) in the following chart(s):
c:
- at '': missing property 'zz'
- at '/tpl': got string, want integer
- at '/tpl2': 'oneOf' failed, none matched
  - at '/tpl2': maxLength: got 17, want 2
- at '/n': maximum: got 271828, want 3
- at '/mail': 'hunter2 is' is not valid email: missing @ in hunter2
- at '/password': 'hunter2 is' does not match pattern '^[a-z]+$'";
    let expected = r"values don't meet the specifications of the schema(s) in the following chart(s):
c:
- at '': missing property 'zz'
- at '/tpl': got string, want integer
- at '/tpl2': 'oneOf' failed, none matched
  - at '/tpl2': maxLength: got 17, want 2
- at '/n': maximum: …, want 3
- at '/mail': … is not valid …
- at '/password': … does not match pattern '^[a-z]+$' (texts that may contain values are not shown)";
    assert_eq!(shown(words), expected);
}

#[test]
fn long_messages_are_cut() {
    let long = "a password is needed ".repeat(1000);
    let text = shown(&long);
    assert!(
        text.len() < 2100 && text.ends_with(" bytes more]"),
        "{text}"
    );
}
