package mysqld

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestImportResult(t *testing.T) {
	tests := []struct{ name, answer, want string }{
		{"done", `{"status":"sha256:0123"}` + "\n", ""},
		{"failed", `{"status":"x"}{"errorDetail":{"message":"no space left"},"error":"no space left"}`, "no space left"},
		{"cut off", `{"status":`, "read the daemon's answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := importResult(strings.NewReader(tt.answer))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRecipe(t *testing.T) {
	if got := recipe(); !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(got) {
		t.Errorf("got %q, want 16 hexadecimal digits", got)
	}
}

func TestTail(t *testing.T) {
	for in, want := range map[string]string{"": "", " \n": "", "a": "\n\ta", "a\nb\nc\n": "\n\tb\n\tc"} {
		if got := tail([]byte(in), 2); got != want {
			t.Errorf("tail(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestEntrypointSyntax(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	if out, err := exec.Command(bash, "-n", "image/entrypoint.sh").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
