package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/events/bus"
	busserver "stint/events/bus/server"
)

// hosts are machines as far as a network tells them apart: each is a namespace of networks, of host names and of mounts, on one switch.
// They share this machine's files but for the folder of the cluster, which each has of its own in the same place, and a local one.
type hosts struct {
	c     *cluster
	local string // a folder of the same name and other contents on each
	all   []*oneHost
	last  io.Closer // the switch
}

type oneHost struct {
	name   string
	ip     string
	pid    int    // of a process that keeps its namespaces
	dir    string // its folder of the cluster, as this test sees it
	local  string // likewise its local one
	holder io.Closer
	keep   []io.Closer // what ends with it
}

const busPort = 4222

// separate makes so many hosts h1, h2, … with a bus and a cluster's head on h1 and a node on each, every daemon started by itself as the units of
// deployments/systemd start them. It is no test where namespaces cannot be made.
func separate(t *testing.T, count int, conf string) *hosts {
	t.Helper()
	needRoot(t)
	for _, program := range []string{"ip", "nsenter", "mount", "hostname"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s to make hosts of network namespaces (Debian: iproute2, util-linux, hostname)", program)
		}
	}
	c := planned(t)
	base := filepath.Dir(c.dir)
	h := &hosts{c: c, local: filepath.Join(base, "local")}
	os.Mkdir(c.dir, 0o755)
	os.Mkdir(h.local, 0o755)
	t.Cleanup(h.end)
	if err := h.network(count, base); err != nil {
		t.Skipf("hosts of network namespaces cannot be made here: %v", err)
	}
	h.keys(t)
	h.bus(t, base)
	file := filepath.Join(c.work, "slurm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	first := h.all[0]
	under := "stint-test-" + filepath.Base(base)
	h.do(t, first, "stint", "up", "--detach", "--wait", patience.String(), "--cgroup-under", under, "--config", file, "--bus", fmt.Sprintf("nats://%s:%d", first.ip, busPort))
	for _, x := range h.all[1:] {
		if err := x.follow(first); err != nil {
			t.Fatal(err)
		}
		for _, daemon := range [][]string{{"agent"}, {"supervisor", "--node", x.name}, {"executor", "--node", x.name}} {
			h.daemon(t, x, daemon...)
		}
	}
	c.env = append(c.env, "PATH="+filepath.Join(c.dir, "bin")+":/usr/bin:/bin")
	c.eventually("all nodes are up", func() bool {
		r := h.try(first, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
		return strings.Count(r.out, "\n") == count
	})
	return h
}

// network makes the switch and the hosts on it.
func (h *hosts) network(count int, base string) error {
	sw := &oneHost{name: "switch"}
	if err := sw.hold(); err != nil {
		return err
	}
	h.last = sw.holder
	if err := sw.inside("ip", "link", "add", "br0", "type", "bridge"); err != nil {
		return err
	}
	if err := sw.inside("ip", "link", "set", "br0", "up"); err != nil {
		return err
	}
	var names strings.Builder
	names.WriteString("127.0.0.1 localhost\n")
	for i := range count {
		fmt.Fprintf(&names, "10.99.0.%d h%d\n", i+1, i+1)
	}
	etc := filepath.Join(base, "hosts")
	if err := os.WriteFile(etc, []byte(names.String()), 0o644); err != nil {
		return err
	}
	for i := range count {
		x := &oneHost{name: fmt.Sprintf("h%d", i+1), ip: fmt.Sprintf("10.99.0.%d", i+1)}
		x.dir, x.local = filepath.Join(base, x.name), filepath.Join(base, x.name+".local")
		if err := x.hold(); err != nil {
			return err
		}
		h.all = append(h.all, x)
		for _, d := range []string{x.dir, x.local} {
			if err := os.Mkdir(d, 0o755); err != nil {
				return err
			}
			os.Chmod(d, 0o755)
		}
		port := fmt.Sprintf("v%d", i+1)
		for _, words := range [][]string{
			{"hostname", x.name},
			{"mount", "--make-rprivate", "/"},
			{"mount", "--bind", etc, "/etc/hosts"},
			{"mount", "--bind", x.dir, h.c.dir},
			{"mount", "--bind", x.local, h.local},
			{"ip", "link", "set", "lo", "up"},
			{"ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", strconv.Itoa(sw.pid)},
			{"ip", "addr", "add", x.ip + "/24", "dev", "eth0"},
			{"ip", "link", "set", "eth0", "up"},
		} {
			if err := x.inside(words[0], words[1:]...); err != nil {
				return err
			}
		}
		if err := sw.inside("ip", "link", "set", port, "master", "br0", "up"); err != nil {
			return err
		}
	}
	return nil
}

// hold starts the process that keeps a host's namespaces: it ends with this test, however that goes.
func (x *oneHost) hold() error {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	x.pid, x.holder = cmd.Process.Pid, in
	return nil
}

// enter is a command on the host.
func (x *oneHost) enter(words ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(x.pid), "-n", "-u", "-m"}, words...)
}

func (x *oneHost) inside(name string, args ...string) error {
	words := x.enter(append([]string{name}, args...)...)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s %s: %w: %s", x.name, name, strings.Join(args, " "), err, out)
	}
	return nil
}

// keys makes the keys of all roles, and gives each host those of its own.
func (h *hosts) keys(t *testing.T) {
	t.Helper()
	first := filepath.Join(h.all[0].dir, "keys")
	os.Mkdir(first, 0o700)
	keys, err := busserver.OpenKeys(first)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"admin", "controller", "ledger", "service"}
	for _, x := range h.all {
		names = append(names, "agent:"+x.name, "executor:"+x.name)
	}
	for _, name := range names {
		role, err := bus.ParseRole(name)
		if err == nil {
			_, err = keys.Seed(role)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range h.all[1:] {
			if !strings.HasSuffix(name, ":"+x.name) {
				continue
			}
			os.Mkdir(filepath.Join(x.dir, "keys"), 0o700)
			from := keys.Path(role)
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(x.dir, "keys", filepath.Base(from)), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bus runs a server of the bus on the first host.
func (h *hosts) bus(t *testing.T, base string) {
	t.Helper()
	x := h.all[0]
	keys, err := busserver.OpenKeys(filepath.Join(x.dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	users, err := keys.Users()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "bus")
	os.Mkdir(dir, 0o700)
	conf := fmt.Sprintf("server_name: one\nlisten: %q\nmax_payload: 1MB\njetstream {\n store_dir: %q\n max_file_store: 1024T\n limits { default_max_consumers: -1 }\n}\nauthorization {\n include ./users.conf\n}\n",
		fmt.Sprintf("%s:%d", x.ip, busPort), filepath.Join(dir, "store"))
	for name, text := range map[string]string{"server.conf": conf, "users.conf": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := x.enter(self)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), serveEnv+"="+filepath.Join(dir, "server.conf"))
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
	x.keep = append(x.keep, in)
}

// follow makes a host's folder of the cluster: what the first says of it, and the node of its own.
func (x *oneHost) follow(first *oneHost) error {
	data, err := os.ReadFile(filepath.Join(first.dir, "cluster.json"))
	if err != nil {
		return err
	}
	var cluster map[string]any
	if err := json.Unmarshal(data, &cluster); err != nil {
		return err
	}
	cluster["nodes"] = []string{x.name}
	cluster["under"] = fmt.Sprint(cluster["under"], "-", x.name) // they share this machine's control groups, if nothing else
	if data, err = json.Marshal(cluster); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(x.dir, "cluster.json"), data, 0o644); err != nil {
		return err
	}
	for _, d := range []string{"log", "node", "spool"} {
		os.Mkdir(filepath.Join(x.dir, d), 0o711)
	}
	os.Symlink(filepath.Join(first.dir, "bin"), filepath.Join(x.dir, "bin"))
	if compat, err := os.ReadFile(filepath.Join(first.dir, "compat")); err == nil {
		return os.WriteFile(filepath.Join(x.dir, "compat"), compat, 0o644)
	}
	return nil
}

// daemon starts one of Stint's daemons on a host.
func (h *hosts) daemon(t *testing.T, x *oneHost, words ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(x.dir, "log", words[0]+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	words = x.enter(append([]string{filepath.Join(bin, "stint")}, append(words, "--dir", h.c.dir)...)...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = h.c.env, log, log, "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
}

// try runs a command on a host, in the work directory.
func (h *hosts) try(x *oneHost, name string, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	words := x.enter(append([]string{"env", "--chdir=" + h.c.work, name}, args...)...)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = h.c.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := result{out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		r.code, r.err = -1, r.err+err.Error()
	}
	return r
}

func (h *hosts) do(t *testing.T, x *oneHost, name string, args ...string) string {
	t.Helper()
	r := h.try(x, name, args...)
	if r.code != 0 {
		t.Fatalf("%s: %s %s: exit %d\n%s%s", x.name, name, strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// end ends all that runs on the hosts, and takes the namespaces away with it.
func (h *hosts) end() {
	if h.c.t.Failed() {
		for _, x := range h.all {
			logs, _ := filepath.Glob(filepath.Join(x.dir, "log", "*.log"))
			for _, l := range logs {
				data, _ := os.ReadFile(l)
				h.c.t.Logf("%s: %s:\n%s", x.name, filepath.Base(l), data[max(0, len(data)-2000):])
			}
		}
	}
	for i := len(h.all) - 1; i >= 0; i-- {
		x := h.all[i]
		h.try(x, "stint", "down", "--kill")
		x.killAll()
		for _, k := range x.keep {
			k.Close()
		}
		x.holder.Close()
	}
	if h.last != nil {
		h.last.Close()
	}
}

// killAll ends the processes of a host, but for the one that keeps it.
func (x *oneHost) killAll() {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", x.pid))
	if err != nil {
		return
	}
	list, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, p := range list {
		pid, _ := strconv.Atoi(strings.Split(p, "/")[2])
		if at, err := os.Readlink(p); err == nil && at == own && pid != x.pid {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Three hosts on a network: jobs, steps, allocations, MPI of both kinds and files go over it, by the hosts' own names and addresses.
func TestHosts(t *testing.T) {
	h := separate(t, 3, "ClusterName=hosts\nSlurmctldHost=h1\nNodeName=h[1-3] CPUs=2 RealMemory=1000\nPartitionName=debug Nodes=ALL Default=YES\n")
	c, h1, h2 := h.c, h.all[0], h.all[1]
	t.Run("srun", func(t *testing.T) {
		if got := sortedLines(h.do(t, h2, "srun", "-N3", "-l", "sh", "-c", "echo $(hostname) $SLURMD_NODENAME $SLURM_LAUNCH_NODE_IPADDR")); got != "0: h1 h1 10.99.0.2|1: h2 h2 10.99.0.2|2: h3 h3 10.99.0.2" {
			t.Errorf("it prints %s", got)
		}
		big := h.try(h1, "sh", "-c", "head -c 20000000 /dev/zero | srun -w h3 cat | wc -c")
		if strings.TrimSpace(big.out) != "20000000" {
			t.Errorf("through a task on another host come %q %q", big.out, big.err)
		}
		if r := h.try(h1, "srun", "-w", "h3", "sh", "-c", "exit 7"); r.code != 7 || !strings.Contains(r.err, "srun: error: h3: task 0: Exited with exit code 7") {
			t.Errorf("exit %d, %s", r.code, r.err)
		}
	})
	t.Run("sbatch", func(t *testing.T) {
		c.script("two", "#!/bin/sh\n#SBATCH -N2 -w h[2-3] -o two.out\nhostname\nscontrol show hostnames $SLURM_JOB_NODELIST | head -n1\nsrun -l hostname | sort\nsrun -N1 -n1 -w h3 hostname -i\n")
		h.do(t, h1, "sbatch", "-W", "two")
		if got := c.read("two.out"); got != "h2\nh2\n0: h2\n1: h3\n10.99.0.3\n" {
			t.Errorf("it prints %q", got)
		}
	})
	t.Run("salloc", func(t *testing.T) {
		if got := h.do(t, h2, "salloc", "-N2", "-w", "h[1,3]", "sh", "-c", "hostname; srun hostname | sort"); got != "h2\nh1\nh3\n" {
			t.Errorf("it prints %q", got)
		}
	})
	t.Run("sbcast", func(t *testing.T) {
		c.script("cast", "#!/bin/sh\n#SBATCH -N3 -o cast.out\nhead -c 3000000 /dev/urandom >big\nsbcast --compress --fanout=1 big "+h.local+"/big && srun cksum "+h.local+"/big | sort -u | wc -l\ncksum <big >own\nsrun -n1 -N1 -w h3 cksum <"+h.local+"/big | cmp - own && echo same\n")
		h.do(t, h1, "sbatch", "-W", "cast")
		if got := c.read("cast.out"); got != "1\nsame\n" {
			t.Errorf("it prints %q", got)
		}
		for _, x := range h.all {
			if st, err := os.Stat(filepath.Join(x.local, "big")); err != nil || st.Size() != 3000000 {
				t.Errorf("%s: %v", x.name, err)
			}
		}
	})
	t.Run("a program is copied", func(t *testing.T) {
		c.script("prog", "#!/bin/sh\necho $(hostname) runs $0\n")
		if got := sortedLines(h.do(t, h1, "srun", "-N3", "--bcast="+h.local+"/copy", "./prog")); got != strings.ReplaceAll("h1 runs L|h2 runs L|h3 runs L", "L", h.local+"/copy") {
			t.Errorf("it prints %s", got)
		}
	})
	t.Run("a program on one of them only", func(t *testing.T) {
		os.WriteFile(filepath.Join(h2.local, "only"), []byte("#!/bin/sh\nhostname\n"), 0o755)
		r := h.try(h1, "srun", "-N3", h.local+"/only")
		if r.code != 2 || r.out != "h2\n" || !strings.Contains(r.err, "srun: error: h1: task 0: Exited with exit code 2") || !strings.Contains(r.err, "srun: error: h3: task 2: Exited with exit code 2") ||
			strings.Count(r.err, "/only: No such file or directory") != 2 {
			t.Errorf("exit %d, prints %s\n%s", r.code, r.out, r.err)
		}
	})
	for _, m := range mpis[:2] {
		t.Run(m.name, func(t *testing.T) {
			program := built(t, c, m.compiler, m.needs)
			var want []string
			for r := range 6 {
				want = append(want, fmt.Sprintf("%d of 6 on h%d: 21, 2 here", r, r/2+1))
			}
			args := append([]string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl_tcp_if_include=eth0"}, "srun", "--mpi="+m.kind, "-N3", "-n6", program)
			if r := h.try(h2, "env", args...); r.code != 0 || sortedLines(r.out) != strings.Join(want, "|") {
				t.Errorf("exit %d, prints %s\n%s", r.code, r.out, r.err)
			}
		})
	}
	t.Run("mpirun of Open MPI starts its daemons by srun", func(t *testing.T) {
		program := built(t, c, "mpicc.openmpi", "")
		c.script("ompi", "#!/bin/sh\n#SBATCH -N3 --ntasks-per-node=2 -o ompi.out\nexport OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\nmpirun.openmpi --oversubscribe --mca btl tcp,self --mca btl_tcp_if_include eth0 "+program+"\n")
		h.try(h1, "sbatch", "-W", "ompi")
		if got := c.read("ompi.out"); strings.Count(got, "of 6 on h") != 6 || strings.Count(got, ": 21, 2 here") != 6 {
			t.Errorf("it prints %s", got)
		}
	})
	t.Run("Hydra starts its proxies by srun", func(t *testing.T) {
		program := built(t, c, "mpicc.mpich", "")
		c.script("hydra", "#!/bin/sh\n#SBATCH -N3 --ntasks-per-node=2 -o hydra.out\nexport UCX_TLS=tcp,self UCX_NET_DEVICES=eth0\nmpiexec.hydra "+program+"\n")
		h.try(h1, "sbatch", "-W", "hydra")
		if got := c.read("hydra.out"); strings.Count(got, "of 6 on h") != 6 || strings.Count(got, ": 21, 2 here") != 6 {
			t.Errorf("it prints %s", got)
		}
	})
}
