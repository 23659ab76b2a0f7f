package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stint/cli/slurm"
	"stint/cli/slurm/once"
)

// schedulerGroups are the words of SchedulerParameters: those that have an effect, without a text, and why the others have none.
var schedulerGroups = []struct{ text, words string }{
	{"", "bf_window bf_max_job_test max_script_size kill_invalid_depend enable_user_top"},
	{"a pass looks at every job that waits, and takes milliseconds", `default_queue_depth partition_job_depth sched_max_job_start max_sched_time build_queue_timeout
		bf_max_time bf_yield_interval bf_yield_sleep bf_yield_rpc_cnt bf_continue bf_max_job_array_resv bf_node_space_size bf_licenses bf_window_linear max_array_tasks`},
	{"starts are planned to the second", "bf_resolution"},
	{"jobs are placed when something changes, not at intervals", `bf_interval sched_interval sched_min_interval batch_sched_delay defer defer_batch max_rpc_cnt
		inventory_interval`},
	{"backfill counts no jobs of a user, an account or a partition", `bf_max_job_assoc bf_max_job_part bf_max_job_start bf_max_job_user bf_max_job_user_part
		bf_job_part_count_reserve`},
	{"the first job of each partition that waits is planned, and no other", `bf_min_age_reserve bf_min_prio_reserve bf_one_resv_per_job bf_busy_nodes
		bf_running_job_reserve bf_topopt_enable bf_topopt_iterations`},
	{"limits of accounts do not hold others up", "assoc_limit_stop"},
	{"there are no reservations for it yet", "bf_allow_magnetic_slot"},
	{"the components of a heterogeneous job start together", "bf_hetjob_immediate bf_hetjob_prio whole_hetjob disable_hetjob_steps enable_hetjob_steps"},
	{"no job is preempted yet", "preempt_reorder_count preempt_strict_order preempt_youngest_first reduce_completing_frag"},
	{"a job that goes back waits as long as Slurm has it wait by default", "requeue_delay requeue_on_resume_failure delay_boot nohold_on_prolog_fail"},
	{"jobs start on nodes that answer", "salloc_wait_nodes sbatch_wait_nodes no_backup_scheduling"},
	{"a step that has no room asks again at intervals of its own", "step_retry_count step_retry_time"},
	{"jobs are placed as they ask", `allow_zero_lic bb_array_stage_cnt correspond_after_task_cnt disable_job_shrink extra_constraints
		ignore_constraint_validation Ignore_NUMA ignore_prefer_validation max_switch_wait pack_serial_at_end spec_cores_first time_min_as_soft_limit`},
	{"a line of options may be of any length", "max_submit_line_size"},
}

// schedulerWords maps the words, in small letters, to why they have no effect.
var schedulerWords = once.Value[map[string]string]{Make: func() map[string]string {
	m := map[string]string{}
	for _, g := range schedulerGroups {
		for _, w := range strings.Fields(g.words) {
			m[strings.ToLower(w)] = g.text
		}
	}
	return m
}}

func (b *builder) schedulerParameters(v string) error {
	var idle []word
	var unknown []string
	for _, term := range list(v) {
		name, value, _ := strings.Cut(term, "=")
		name = strings.ToLower(name)
		text, known := schedulerWords.Get()[name]
		switch {
		case !known:
			unknown = append(unknown, name)
		case text != "":
			idle = append(idle, word{name, text})
		}
		var err error
		var n uint64
		switch name {
		case "bf_window":
			n, err = whole(value, 1, 1<<20)
			b.Config.BfWindowS = uint32(n) * 60
		case "bf_max_job_test":
			n, err = whole(value, 1, 1<<30)
			b.Config.BfMaxJobTest = uint32(n)
		case "bf_resolution":
			n, err = whole(value, 1, 3600)
			b.Config.BfResolutionS = uint32(n)
		case "max_script_size":
			if n, err = whole(value, 1, 512<<20); n > slurm.MaxScript {
				idle = append(idle, word{name, "a script may have 4 MiB and no more"})
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	b.idle("SchedulerParameters", idle)
	b.unknown("SchedulerParameters", unknown, slices.Sorted(maps.Keys(schedulerWords.Get())))
	return nil
}
