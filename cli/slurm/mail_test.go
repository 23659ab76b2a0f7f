package slurm

import "testing"

// Only addresses come to the mail program: no options, commands or files, whatever program it is.
func TestMailUsers(t *testing.T) {
	for _, v := range []string{"", "alice", "alice@site.org", "a.b-c+d@x.y", "a@b,c@d", "_svc", "1000@x", "jürgen@straße.de", "a%b@c", "a=b@c", "#1@x"[1:]} {
		if err := CheckMailUser("--mail-user", v); err != nil {
			t.Errorf("%q: %v", v, err)
		}
	}
	for _, v := range []string{"-A/etc/shadow", "--exec=!id", "-", "|id", "a,|id", "/root/.ssh/authorized_keys", "./x", "+inbox", "a b", "a\tb", "a\nb", "a\rb",
		",", "a,", "a,-x", ".", "a;b", "$(id)", "`id`", "a\x00", "~x", "a'b", "\xff"} {
		if err := CheckMailUser("--mail-user", v); err == nil {
			t.Errorf("%q is taken for an address", v)
		}
		if _, err := Sbatch(testInput("--mail-user="+v, "--wrap", "x")); err == nil {
			t.Errorf("--mail-user=%q is taken", v)
		}
	}
}
