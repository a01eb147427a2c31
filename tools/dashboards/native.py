"""Our own dashboards, over the native names: from the fleet to the node, the GPU, and what runs on it.

`cluster` is an attribute that the configuration gives (`attributes: {cluster: …}`); without it only All is offered, which matches
series without the label, too. `instance` is what Prometheus calls the node. A gateway counts the requests of the engines behind it, so
sums over engines take the layer `engine` alone.
"""
import inside
import proxy
from model import INF, Board, Column, Query, Row, Threshold, Variable, bars, heat, lines, stat, table

CLUSTER = Variable("cluster", "Cluster", "label_values(gpulens_build_info, cluster)")
NODE = Variable("node", "Node", 'label_values(gpulens_build_info{cluster=~"$cluster"}, instance)')
ONE_NODE = Variable("node", "Node", 'label_values(gpulens_build_info{cluster=~"$cluster"}, instance)', multi=False)
SOME_NODES = Variable("node", "Node", 'label_values(gpulens_build_info{cluster=~"$cluster"}, instance)', every=False)
GPU = Variable("gpu", "GPU", 'label_values(gpu_info{cluster=~"$cluster", instance="$node"}, gpu_index)', multi=False)

C = 'cluster=~"$cluster"'
LLM = f'{C}, inference_layer="engine"'
N = 'cluster=~"$cluster", instance=~"$node"'
ONE = f'{C}, instance="$node"'
G = f'{C}, instance="$node", gpu_index="$gpu"'
E = 'instance=~"$node", target="$target", inference_layer="engine"'
BUSY = 'gpu_task_type="compute"'
CHIP = 'gpu_temperature_sensor=~"edge|hotspot"'  # some boards have no sensor at the edge

HOT = (Threshold(85, "orange", "near where many boards slow down"), Threshold(95, "red", "most slow down; alert GpuTooHot goes by the board's own limit"))
AGED = (Threshold(10, "orange", "readings are late"), Threshold(30, "red", "stale: the value is the last one that was read; alert GpuReadingsOld"))
SICK = (Threshold(-INF, "red", "look at the reasons"), Threshold(0.9, "orange", "something takes off the score"), Threshold(1, "green", "healthy"))
ANY = (Threshold(1, "red", "at least one"),)
SHARE = 2  # of time, as a rate: the page of a busy agent is late, and what it counted then falls into a shorter interval
FULL = (Threshold(0.95, "red", "alert InferenceKvCacheFull"),)
WAIT = (Threshold(1, "orange", "requests wait"), Threshold(10, "red", "alert InferenceQueueGrowing, if it grows"))

TO_NODE = ("Node", "/d/gpulens-node?var-node=${__field.labels.instance}&${datasource:queryparam}&${cluster:queryparam}")
TO_GPU = ("GPU", "/d/gpulens-gpu?var-node=${__field.labels.instance}&var-gpu=${__field.labels.gpu_index}&${datasource:queryparam}&${cluster:queryparam}")
TO_ENGINE = ("Engine", "/d/gpulens-engine?var-node=${__field.labels.instance}&var-target=${__field.labels.target}&${datasource:queryparam}")
ROW_TO_NODE = ("Node", "/d/gpulens-node?var-node=${__data.fields.Node}&${datasource:queryparam}&${cluster:queryparam}")
ROW_TO_GPU = ("GPU", "/d/gpulens-gpu?var-node=${__data.fields.Node}&var-gpu=${__data.fields.GPU}&${datasource:queryparam}&${cluster:queryparam}")
ROW_TO_JOB = ("Job", "/d/gpulens-job?var-tenant=${__data.fields.Tenant}&${datasource:queryparam}&${cluster:queryparam}")
# 1 for a GPU in another state, 0 for one that is ok: at the level standard a GPU has the series of its state alone.
TROUBLE = f'(gpu_state{{{C}, gpu_state!="ok"}} == 1) or (gpu_state{{{C}, gpu_state="ok"}} == 1) * 0'
WORST = f"bottomk(20, max by (cluster, instance, gpu_index, gpu_model) (gpu_health_score_ratio{{{C}}}))"


def quantiles(metric, where, low=0.0, high=60.0):
    """p50, p95 and p99 of a histogram over $__rate_interval: of summed buckets of one engine or program, since others have other bounds."""
    return [Query(f"histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{where}}}[$__rate_interval])))", f"p{q * 100:g}", low, high) for q in (0.5, 0.95, 0.99)]


FLEET = Board(
    "gpulens-fleet.json", "gpulens-fleet", "gpulens / Fleet", "All clusters and nodes: what there is, how much of it works, and what needs attention.",
    "native", (CLUSTER,), answers=("How many GPUs are there, and do all of them answer?", "Which clusters and nodes are busy, hot or ill?",
                                   "Do the engines keep up?", "Where is gpulens itself blind?"),
    rows=(
        Row("Now", (
            stat("GPUs", "GPUs that answer.", Query(f"sum(gpu_devices{{{C}}})", low=10, high=10)),
            stat("Nodes", "Nodes whose agent is scraped.", Query(f"count(gpulens_build_info{{{C}}})", low=2, high=2)),
            stat("GPUs in trouble", "GPUs that are lost, hang, need a reset or may not be read.",
                 Query(f"sum(max by (cluster, instance, gpu_uuid) ({TROUBLE}))", high=10), thresholds=ANY),
            stat("Worst health", "Health score of the worst GPU; 1 is healthy.", Query(f"min(gpu_health_score_ratio{{{C}}})", low=0, high=1), "percentunit",
                 thresholds=SICK),
            stat("Hottest GPU", "Temperature of the hottest chip, not of its memory.", Query(f"max(gpu_temperature_celsius{{{C}, {CHIP}}})", low=20, high=110), "celsius", thresholds=HOT),
            stat("Oldest reading", "Age of the oldest complete reading of any GPU. Values of a stale GPU are shown as they were last read.",
                 Query(f"max(gpu_sample_age_seconds{{{C}}})", high=15), "s", thresholds=AGED),
            stat("Utilization", "Mean over GPUs of the share of time in which a kernel ran.", Query(f"avg(gpu_utilization_ratio{{{C}, {BUSY}}})", low=0.05, high=1), "percentunit"),
            stat("Memory in use", "Memory in use as a share of all memory of the GPUs.",
                 Query(f"sum(gpu_memory_used_bytes{{{C}}}) / sum(gpu_memory_total_bytes{{{C}}})", low=0.1, high=1), "percentunit"),
            stat("Idle", "GPUs that were used less than the threshold for the hold time of the cost analyzer, whether a job holds them or not.",
                 Query(f"sum(gpu_idle{{{C}}})", high=10), thresholds=(Threshold(1, "orange", "paid for, and not used"),)),
            stat("Power", "Power of all GPUs.", Query(f"sum(gpu_power_draw_watts{{{C}}})", low=500, high=8000), "watt"),
            stat("Energy", "Energy of all GPUs in the range of time.",
                 Query(f"sum(increase(gpu_energy_consumption_joules_total{{{C}}}[$__range])) / 3600", low=10, high=3000), "watth"),
            stat("XIDs", "XID errors in the range of time.", Query(f"sum(increase(gpu_xid_errors_total{{{C}}}[$__range]))", high=5), thresholds=ANY),
        )),
        Row("Nodes", (
            table("Nodes", "Each node with its worst values. A node whose agent is not scraped has no row; Agents below has those that were lost lately.",
                  (("cluster", "Cluster"), ("instance", "Node")),
                  Column("GPUs", Query(f"sum by (cluster, instance) (gpu_devices{{{C}}})", low=2, high=8)),
                  Column("Utilization", Query(f"avg by (cluster, instance) (gpu_utilization_ratio{{{C}, {BUSY}}})", high=1), "percentunit"),
                  Column("Memory", Query(f"sum by (cluster, instance) (gpu_memory_used_bytes{{{C}}}) / sum by (cluster, instance) (gpu_memory_total_bytes{{{C}}})", high=1),
                         "percentunit"),
                  Column("Power", Query(f"sum by (cluster, instance) (gpu_power_draw_watts{{{C}}})", low=20, high=6000), "watt"),
                  Column("Hottest", Query(f"max by (cluster, instance) (gpu_temperature_celsius{{{C}, {CHIP}}})", low=20, high=110), "celsius", HOT),
                  Column("Worst health", Query(f"min by (cluster, instance) (gpu_health_score_ratio{{{C}}})", high=1), "percentunit", SICK),
                  Column("Oldest reading", Query(f"max by (cluster, instance) (gpu_sample_age_seconds{{{C}}})", high=15), "s", AGED),
                  links=(ROW_TO_NODE,)),
            table("GPUs with the worst health", "The twenty GPUs with the lowest health score, and what may be the reason.",
                  (("cluster", "Cluster"), ("instance", "Node"), ("gpu_index", "GPU"), ("gpu_model", "Model")),
                  Column("Health", Query(WORST, low=0, high=1), "percentunit", SICK),
                  *(Column(name, Query(f"max by (cluster, instance, gpu_index, gpu_model) ({expr}) and on (cluster, instance, gpu_index) {WORST}", high=high), "none", ANY, words)
                    for name, expr, high, words in (
                        ("XIDs", f"increase(gpu_xid_errors_total{{{C}}}[$__range])", 5, ()), ("Uncorrected ECC", f"gpu_ecc_dbe_total{{{C}}}", 0, ()),
                        ("Reset needed", f"gpu_row_remap_reset_pending{{{C}}}", 1, ((0, "no"), (1, "yes"))))),
                  links=(ROW_TO_GPU,)),
        )),
        Row("Load", (
            lines("Utilization by cluster", "Mean over the GPUs of each cluster.", Query(f"avg by (cluster) (gpu_utilization_ratio{{{C}, {BUSY}}})", "{{cluster}}", 0, 1),
                  unit="percentunit", top=1),
            lines("Memory by cluster", "Memory in use as a share of the cluster's memory.",
                  Query(f"sum by (cluster) (gpu_memory_used_bytes{{{C}}}) / sum by (cluster) (gpu_memory_total_bytes{{{C}}})", "{{cluster}}", 0, 1), unit="percentunit", top=1),
            lines("Power by cluster", "Power of the GPUs, stacked.", Query(f"sum by (cluster) (gpu_power_draw_watts{{{C}}})", "{{cluster}}", 20, 6000), unit="watt", stack=True),
            lines("Hottest GPU by node", "Of each node the hottest GPU, of the ten hottest nodes.",
                  Query(f"topk(10, max by (cluster, instance) (gpu_temperature_celsius{{{C}, {CHIP}}}))", "{{instance}}", 20, 110), unit="celsius", thresholds=HOT, links=(TO_NODE,)),
            bars("Busiest GPUs", "The ten with most compute utilization.", Query(f"topk(10, max by (cluster, instance, gpu_index) (gpu_utilization_ratio{{{C}, {BUSY}}}))",
                                                                               "{{instance}} GPU {{gpu_index}}", 0, 1), "percentunit", top=1, links=(TO_GPU,)),
            bars("Idle GPUs", "What an hour of each idle GPU costs, ten of them; 0 for one that is used. Without a price, none is shown.",
                 Query(f"topk(10, max by (cluster, instance, gpu_index) (gpu_cost_idle_rate_USD_per_second{{{C}}}) * 3600)", "{{instance}} GPU {{gpu_index}}", 0, 10),
                 "currencyUSD", links=(TO_GPU,)),
        )),
        Row("Engines", (
            lines("Tokens generated", "Tokens per second by model.",
                  Query(f'sum by (model_name) (rate(inference_tokens_generation_total{{inference_layer="engine", {C}}}[$__rate_interval]))', "{{model_name}}", 0, 20000),
                  unit="cps", width=8),
            lines("Time to first token, p95", "Of the requests of the interval, by model and kind of engine, since kinds differ in their buckets.",
                  Query(f'histogram_quantile(0.95, sum by (le, model_name, inference_engine) (rate(inference_time_to_first_token_seconds_bucket{{inference_layer="engine", {C}}}[$__rate_interval])))',
                        "{{model_name}} {{inference_engine}}", 0, 60), unit="s", width=8),
            lines("Requests waiting", "Requests accepted and not yet scheduled.",
                  Query(f'sum by (model_name) (inference_requests_waiting{{inference_layer="engine", {C}}})', "{{model_name}}", 0, 600), unit="none", width=8),
        )),
        Row("Engine by engine", (
            table("Engines", "Each engine, gateways and caches left out.",
                  (("instance", "Node"), ("target", "Engine"), ("inference_engine", "Kind"), ("model_name", "Model")),
                  *(Column(name, Query(f"{how} by (instance, target, inference_engine, model_name) ({expr})", high=high), unit, thresholds) for name, how, expr, high, unit, thresholds in (
                      ("Running", "sum", f"inference_requests_running{{{LLM}}}", 2000, "none", ()), ("Waiting", "sum", f"inference_requests_waiting{{{LLM}}}", 2000, "none", WAIT),
                      ("Tokens generated", "sum", f"rate(inference_tokens_generation_total{{{LLM}}}[$__rate_interval])", 1e5, "cps", ()),
                      ("KV cache", "max", f'inference_kv_cache_usage_ratio{{{LLM}, cache_type="gpu"}}', 1, "percentunit", FULL),
                      ("TTFT p95", "max", f"histogram_quantile(0.95, sum by (le, instance, target, inference_engine, model_name) (rate(inference_time_to_first_token_seconds_bucket{{{LLM}}}[$__rate_interval])))", 60, "s", ()))),
                  links=(("Engine", "/d/gpulens-engine?var-node=${__data.fields.Node}&var-target=${__data.fields.Engine}&${datasource:queryparam}"),)),
        )),
        Row("Trouble", (
            lines("Throttled", "GPU time per second for which a cause held the clock down: 1 is one whole GPU.",
                  Query(f"sum by (gpu_throttle_cause) (rate(gpu_throttle_time_seconds_total{{{C}}}[$__rate_interval]))", "{{gpu_throttle_cause}}", 0, 10), unit="none", width=8),
            lines("XIDs by node", "XID errors in each interval.", Query(f"sum by (cluster, instance) (increase(gpu_xid_errors_total{{{C}}}[$__rate_interval]))", "{{instance}}", 0, 5),
                  unit="none", width=8, links=(TO_NODE,)),
            lines("Memory errors", "New ECC errors in each interval, by type.",
                  Query(f'sum by (gpu_ecc_error_type) (increase(gpu_ecc_errors_total{{{C}, gpu_ecc_count_type="volatile"}}[$__rate_interval]))', "{{gpu_ecc_error_type}}", 0, 100),
                  unit="none", width=8),
            lines("Collectors that are down", "Collectors of each node that are down. What is not on the machine counts, too: a step up matters.",
                  Query(f"count by (cluster, instance) (gpulens_collector_up{{{C}}}) - sum by (cluster, instance) (gpulens_collector_up{{{C}}})", "{{instance}}", 0, 20), unit="none", width=8),
            lines("Agents", "Nodes whose agent answered Prometheus. A step down is a node that was lost.",
                  Query(f"count by (cluster) (gpulens_build_info{{{C}}})", "{{cluster}}", 1, 1), unit="none", width=8),
            lines("Series refused", "Series per second that agents refuse for a limit.",
                  Query(f"sum by (reason) (rate(gpulens_series_refused_total{{{C}}}[$__rate_interval]))", "{{reason}}", 0, 1), unit="none", width=8),
        )),
    ))

NODE_BOARD = Board(
    "gpulens-node.json", "gpulens-node", "gpulens / Node", "One node, or several: its GPUs, its host, and what the agent on it sees.", "native", (CLUSTER, SOME_NODES),
    answers=("What do the GPUs of this node do, and for whom?", "Is the host the bottleneck: CPU, memory, disks, network?", "Does the agent read everything?"),
    rows=(
        Row("GPUs", (
            table("GPUs", "Each GPU with its owner. Stale rows are those with an old reading.",
                  (("cluster", "Cluster"), ("instance", "Node"), ("gpu_index", "GPU"), ("gpu_model", "Model"), ("tenant", "Tenant"), ("k8s_pod_name", "Pod"), ("slurm_job_id", "Job")),
                  *(Column(name, Query(f"max by (cluster, instance, gpu_index, gpu_model, tenant, k8s_pod_name, slurm_job_id) ({expr})", low=low, high=high), unit, thresholds)
                    for name, expr, low, high, unit, thresholds in (
                        ("Utilization", f"gpu_utilization_ratio{{{N}, {BUSY}}}", 0, 1, "percentunit", ()),
                        ("Memory", f"gpu_memory_used_bytes{{{N}}}", 0, 9e10, "bytes", ()),
                        ("Power", f"gpu_power_draw_watts{{{N}}}", 5, 800, "watt", ()),
                        ("Temperature", f"gpu_temperature_celsius{{{N}, {CHIP}}}", 20, 110, "celsius", HOT),
                        ("Health", f"gpu_health_score_ratio{{{N}}}", 0, 1, "percentunit", SICK),
                        ("Reading", f"gpu_sample_age_seconds{{{N}}}", 0, 15, "s", AGED))),
                  links=(ROW_TO_GPU, ROW_TO_JOB)),
            lines("Utilization", "Share of time in which a kernel ran.", Query(f"max by (cluster, instance, gpu_index) (gpu_utilization_ratio{{{N}, {BUSY}}})", "{{instance}} GPU {{gpu_index}}", 0, 1),
                  unit="percentunit", top=1, links=(TO_GPU,)),
            lines("Memory in use", "Device memory allocated.", Query(f"max by (cluster, instance, gpu_index) (gpu_memory_used_bytes{{{N}}})", "{{instance}} GPU {{gpu_index}}", 0, 9e10),
                  unit="bytes", links=(TO_GPU,)),
            lines("Power", "Power of each board, stacked.", Query(f"max by (cluster, instance, gpu_index) (gpu_power_draw_watts{{{N}}})", "{{instance}} GPU {{gpu_index}}", 5, 800),
                  unit="watt", stack=True, links=(TO_GPU,)),
            lines("Temperature", "Of each chip, not of its memory.", Query(f"max by (cluster, instance, gpu_index) (gpu_temperature_celsius{{{N}, {CHIP}}})", "{{instance}} GPU {{gpu_index}}", 20, 110),
                  unit="celsius", thresholds=HOT, links=(TO_GPU,)),
            lines("SMs active", "Share of cycles in which an SM had a warp: what the time a kernel ran was worth.",
                  Query(f"max by (cluster, instance, gpu_index) (gpu_sm_active_ratio{{{N}}})", "{{instance}} GPU {{gpu_index}}", 0, 1), unit="percentunit", top=1, width=8, links=(TO_GPU,)),
            lines("NVLink", "Bytes per second over all links of a GPU, sent and received.",
                  Query(f"sum by (cluster, instance, gpu_index, gpu_interconnect_direction) (gpu_interconnect_throughput_bytes_per_second{{{N}}})",
                        "{{instance}} GPU {{gpu_index}} {{gpu_interconnect_direction}}", 0, 1e12), unit="Bps", width=8),
            lines("PCIe", "Bytes per second between GPU and host.",
                  Query(f"sum by (cluster, instance, gpu_index, gpu_interconnect_direction) (rate(gpu_pcie_io_bytes_total{{{N}}}[$__rate_interval]))",
                        "{{instance}} GPU {{gpu_index}} {{gpu_interconnect_direction}}", 0, 2e11), unit="Bps", width=8),
            table("Processes", "Processes that hold device memory.",
                  (("cluster", "Cluster"), ("instance", "Node"), ("gpu_index", "GPU"), ("process_executable_name", "Program"), ("process_pid", "Pid"), ("process_owner", "User"), ("tenant", "Tenant")),
                  Column("Memory", Query(f"max by (cluster, instance, gpu_index, process_executable_name, process_pid, process_owner, tenant) (gpu_process_memory_used_bytes{{{N}}})",
                                         low=1e8, high=9e10), "bytes"), links=(ROW_TO_JOB,)),
        )),
        Row("Host", (
            lines("CPU", "Share of all CPUs by mode, without idle.", Query(f'sum by (cluster, instance, cpu_mode) (system_cpu_utilization_ratio{{{N}, cpu_mode!="idle"}})', "{{instance}} {{cpu_mode}}", 0, 1),
                  unit="percentunit", stack=True, top=1, width=8),
            lines("Memory", "Memory that is used for other things than caches, as a share of all.", Query(f"host_memory_utilization_ratio{{{N}}}", "{{instance}}", 0, 1),
                  unit="percentunit", top=1, width=8, thresholds=(Threshold(0.9, "orange", "little is left before the kernel kills programs"),)),
            lines("Load", "Programs that run or wait, mean over 1 min, for each CPU.",
                  Query(f"system_cpu_load_average_1m{{{N}}} / on (cluster, instance) group_left sum by (cluster, instance) (system_cpu_logical_count{{{N}}})", "{{instance}}", 0, 60), unit="none", width=8,
                  thresholds=(Threshold(1, "orange", "more programs than CPUs"),)),
            lines("Pressure", "Share of time in which some program waited for a resource.",
                  Query(f'sum by (cluster, instance, host_pressure_resource) (rate(host_pressure_time_seconds_total{{{N}, host_pressure_level="some"}}[$__rate_interval]))',
                        "{{instance}} {{host_pressure_resource}}", 0, SHARE), unit="percentunit", width=8),
            lines("Disks", "Bytes read and written per second.",
                  Query(f"sum by (cluster, instance, disk_io_direction) (rate(system_disk_io_bytes_total{{{N}}}[$__rate_interval]))", "{{instance}} {{disk_io_direction}}", 0, 1e11), unit="Bps", width=8),
            lines("Network", "Bytes per second over all interfaces but the loopback.",
                  Query(f'sum by (cluster, instance, network_io_direction) (rate(system_network_io_bytes_total{{{N}, network_interface_name!="lo"}}[$__rate_interval]))',
                        "{{instance}} {{network_io_direction}}", 0, 1e11), unit="Bps", width=8),
            bars("Filesystems", "Share in use of each filesystem that can be written to.",
                 Query(f'max by (cluster, instance, system_filesystem_mountpoint) (system_filesystem_utilization_ratio{{{N}, system_filesystem_mode="rw"}})',
                       "{{instance}} {{system_filesystem_mountpoint}}", 0, 1), "percentunit", top=1,
                 thresholds=(Threshold(0.8, "orange", "soon full"), Threshold(0.95, "red", "full"))),
            lines("Killed for memory", "Programs per interval that the kernel killed because memory ran out.",
                  Query(f"sum by (cluster, instance) (increase(host_memory_oom_kills_total{{{N}}}[$__rate_interval]))", "{{instance}}", 0, 10), unit="none"),
        )),
    ))

GPU_BOARD = Board(
    "gpulens-gpu.json", "gpulens-gpu", "gpulens / GPU", "One GPU in depth.", "native", (CLUSTER, ONE_NODE, GPU),
    answers=("What is this GPU, whose is it, and how healthy is it?", "Is it limited by power, heat, memory bandwidth or its work?", "Did its memory or its links have errors?"),
    rows=(
        Row("Identity", (
            stat("Model", "Model of the board.", Query(f"gpu_info{{{G}}}", "{{gpu_model}}", 1, 1), text="name", width=6),
            stat("UUID", "The name that stays with the board.", Query(f"gpu_info{{{G}}}", "{{gpu_uuid}}", 1, 1), text="name", width=6),
            stat("Owner", "Tenant, pod or job that the enrichers know.", Query(f"gpu_info{{{G}}}", "{{tenant}} {{k8s_namespace_name}}/{{k8s_pod_name}} {{slurm_job_id}}", 1, 1), text="name", width=6,
                 links=(("Job", "/d/gpulens-job?var-tenant=${__field.labels.tenant}&${datasource:queryparam}&${cluster:queryparam}"),
                        ("Engines of this node", "/d/gpulens-engine?${node:queryparam}&${datasource:queryparam}"))),
            stat("Driver", "Version of the driver of this node.", Query(f"gpu_driver_info{{{ONE}}}", "{{gpu_driver_version}}", 1, 1), text="name", width=6),
            stat("State", "Whether the GPU answers.", Query(f"gpu_state{{{G}}} == 1", "{{gpu_state}}", 1, 1), text="name"),
            stat("Health", "Health score; 1 is healthy.", Query(f"gpu_health_score_ratio{{{G}}}", low=0, high=1), "percentunit", thresholds=SICK),
            stat("Reading", "Age of the newest complete reading.", Query(f"gpu_sample_age_seconds{{{G}}}", low=0, high=15), "s", thresholds=AGED),
            stat("Asked of the operator", "What the driver asks the operator to do.", Query(f"gpu_recovery_action{{{G}}} == 1", "{{gpu_recovery_action}}", 1, 1), text="name"),
            stat("XIDs", "XID errors in the range of time.", Query(f"increase(gpu_xid_errors_total{{{G}}}[$__range])", low=0, high=5), thresholds=ANY),
            stat("Energy", "Energy in the range of time.", Query(f"increase(gpu_energy_consumption_joules_total{{{G}}}[$__range]) / 3600", low=0.1, high=100), "watth"),
        )),
        Row("Work", (
            lines("Utilization", "Share of time in which at least one kernel ran: says nothing of how many units it used.",
                  Query(f"gpu_utilization_ratio{{{G}, {BUSY}}}", "compute", 0, 1), Query(f"gpu_encode_utilization_ratio{{{G}}}", "encoder", 0, 1),
                  Query(f"gpu_decode_utilization_ratio{{{G}}}", "decoder", 0, 1), unit="percentunit", top=1),
            lines("Units in use", "Share of cycles in which the units were active.", Query(f"gpu_sm_active_ratio{{{G}}}", "SMs", 0, 1), Query(f"gpu_sm_occupancy_ratio{{{G}}}", "SM occupancy", 0, 1),
                  Query(f"gpu_pipe_tensor_active_ratio{{{G}}}", "tensor pipes", 0, 1), Query(f"gpu_dram_active_ratio{{{G}}}", "memory bandwidth", 0, 1), unit="percentunit", top=1),
            lines("Memory", "Device memory.", Query(f"gpu_memory_used_bytes{{{G}}}", "used", 0, 9e10), Query(f"gpu_memory_total_bytes{{{G}}}", "total", 1e10, 9e10), unit="bytes"),
            lines("Memory by process", "Device memory of each process.", Query(f"gpu_process_memory_used_bytes{{{G}}}", "{{process_executable_name}} {{process_pid}}", 1e8, 9e10), unit="bytes", stack=True),
            lines("NVLink", "Bytes per second over all links.", Query(f"sum by (gpu_interconnect_direction) (gpu_interconnect_throughput_bytes_per_second{{{G}}})", "{{gpu_interconnect_direction}}", 0, 1e12),
                  unit="Bps"),
            lines("PCIe", "Bytes per second between GPU and host.",
                  Query(f"sum by (gpu_interconnect_direction) (rate(gpu_pcie_io_bytes_total{{{G}}}[$__rate_interval]))", "{{gpu_interconnect_direction}}", 0, 2e11), unit="Bps"),
        )),
        Row("Power and heat", (
            lines("Power", "Power of the board, and the limit in force.", Query(f"gpu_power_draw_watts{{{G}}}", "drawn", 5, 800),
                  Query(f"gpu_power_draw_watts{{{G}}} / gpu_power_utilization_ratio{{{G}}}", "limit", 50, 1300), unit="watt"),
            lines("Temperature", "At the sensors of the chip and its memory.", Query(f"gpu_temperature_celsius{{{G}}}", "{{gpu_temperature_sensor}}", 20, 110), unit="celsius", thresholds=HOT),
            lines("Clocks", "Current clocks.", Query(f"gpu_clock_frequency_MHz{{{G}}}", "{{gpu_clock_type}}", 0, 12000), unit="rotmhz"),
            lines("Throttled", "Share of time for which a cause held the clock down.",
                  Query(f"sum by (gpu_throttle_cause) (rate(gpu_throttle_time_seconds_total{{{G}}}[$__rate_interval]))", "{{gpu_throttle_cause}}", 0, SHARE), unit="percentunit", stack=True),
            lines("Fan", "Intended speed; boards that the server cools have none.", Query(f"gpu_fan_speed_ratio{{{G}}}", "fan", 0, 1), unit="percentunit", top=1),
            lines("Energy", "Power from the board's energy counter.", Query(f"rate(gpu_energy_consumption_joules_total{{{G}}}[$__rate_interval])", "from the counter", 5, 900), unit="watt"),
        )),
        Row("Errors", (
            lines("Memory errors", "New ECC errors in each interval.",
                  Query(f'sum by (gpu_ecc_error_type) (increase(gpu_ecc_errors_total{{{G}, gpu_ecc_count_type="volatile"}}[$__rate_interval]))', "{{gpu_ecc_error_type}}", 0, 100), unit="none", width=8),
            lines("Rows replaced", "Memory rows that were replaced since the board was made.", Query(f"sum by (gpu_ecc_error_type) (gpu_row_remap_count{{{G}}})", "{{gpu_ecc_error_type}}", 0, 100),
                  unit="none", width=8),
            lines("XIDs", "XID errors in each interval.", Query(f"increase(gpu_xid_errors_total{{{G}}}[$__rate_interval])", "XIDs", 0, 5), unit="none", width=8),
            lines("PCIe replays", "Packets per interval that were sent again.", Query(f"increase(gpu_pcie_replay_count_total{{{G}}}[$__rate_interval])", "replays", 0, 100), unit="none", width=8),
            lines("NVLink errors", "Errors over all links in each interval, by type.",
                  Query(f"sum by (gpu_interconnect_error_type) (increase(gpu_interconnect_errors_total{{{G}}}[$__rate_interval]))", "{{gpu_interconnect_error_type}}", 0, 100), unit="none", width=8),
            lines("What takes off health", "Penalty of each reason.", Query(f"gpu_health_penalty_ratio{{{G}}}", "{{gpu_health_reason}}", 0, 1), unit="percentunit", width=8),
        )),
    ))

TARGET = Variable("target", "Engine", 'label_values(inference_requests_running{instance=~"$node", inference_layer="engine"}, target)', multi=False)
ANY_NODE = Variable("node", "Node", "label_values(inference_requests_running, instance)")

ENGINE = Board(
    "gpulens-engine.json", "gpulens-engine", "gpulens / Engine", "One LLM engine: load, latency, caches, and what a token costs. Engines of all kinds have the same names.", "native",
    (ANY_NODE, TARGET), answers=("Are requests answered in time, and if not: do they wait, compute, or decode?", "Is the KV cache full, does the prefix cache help?", "What does a token cost?"),
    rows=(
        Row("Now", (
            stat("Kind", "What it is, and its version where its page has it.", Query(f"inference_requests_running{{{E}}}", "{{inference_engine}} {{model_name}} {{model_version}}", 0, 2000), text="name"),
            stat("Running", "Requests that execute.", Query(f"sum(inference_requests_running{{{E}}})", low=0, high=2000)),
            stat("Waiting", "Requests that wait to be scheduled.", Query(f"sum(inference_requests_waiting{{{E}}})", high=2000), thresholds=WAIT),
            stat("Tokens generated", "Per second.", Query(f"sum(rate(inference_tokens_generation_total{{{E}}}[$__rate_interval]))", low=0, high=100000), "cps"),
            stat("Fullest KV cache", "Share of KV-cache space on the GPU in use, of the fullest rank.", Query(f'max(inference_kv_cache_usage_ratio{{{E}, cache_type="gpu"}})', high=1), "percentunit",
                 thresholds=FULL),
            stat("Page", "Whether its page could be read last time.", Query('min(gpulens_scrape_up{instance=~"$node", target="$target"})', low=1, high=1),
                 words=((0, "not read"), (1, "read"))),
        )),
        Row("Latency", (
            lines("Time to first token", "From arrival to the first token.", *quantiles("inference_time_to_first_token_seconds", E), unit="s", width=8),
            lines("Between tokens", "Time between two tokens.", *quantiles("inference_inter_token_latency_seconds", E, high=5), unit="s", width=8),
            lines("Whole request", "From arrival to the last token.", *quantiles("inference_request_duration_seconds", E, high=300), unit="s", width=8),
            heat("Time to first token", "Requests by time to first token.", Query(f"sum by (le) (increase(inference_time_to_first_token_seconds_bucket{{{E}}}[$__rate_interval]))", "{{le}}", 0, 1e6), width=12),
            lines("Where time goes", "Mean seconds of a request in the queue, in prefill and in decode.",
                  *(Query(f"sum(rate(inference_request_{part}_time_seconds_sum{{{E}}}[$__rate_interval])) / sum(rate(inference_request_{part}_time_seconds_count{{{E}}}[$__rate_interval]))", part, 0, 60)
                    for part in ("queue", "prefill", "decode")), unit="s", stack=True),
        )),
        Row("Load", (
            lines("Requests running", "In the executing batch.", Query(f"sum by (target, model_name) (inference_requests_running{{{E}}})", "{{target}} {{model_name}}", 0, 2000), width=8),
            lines("Requests waiting", "Accepted and not scheduled.", Query(f"sum by (target, model_name) (inference_requests_waiting{{{E}}})", "{{target}} {{model_name}}", 0, 2000), width=8),
            lines("Requests ended", "Per second, by reason.", Query(f"sum by (finish_reason) (rate(inference_requests_finished_total{{{E}}}[$__rate_interval]))", "{{finish_reason}}", 0, 1000), unit="reqps", width=8),
            lines("Prompt tokens", "Per second, cached ones included.", Query(f"sum by (target) (rate(inference_tokens_prompt_total{{{E}}}[$__rate_interval]))", "{{target}}", 0, 1e6), unit="cps", width=8),
            lines("Tokens generated", "Per second.", Query(f"sum by (target) (rate(inference_tokens_generation_total{{{E}}}[$__rate_interval]))", "{{target}}", 0, 1e5), unit="cps", width=8),
            lines("Errors", "Requests per second that ended with an error, by its type.", Query(f"sum by (target, error_type) (rate(inference_requests_failed_total{{{E}}}[$__rate_interval]))",
                                                                                              "{{target}} {{error_type}}", 0, 100), unit="reqps", width=8),
        )),
        Row("Caches", (
            lines("KV cache", "Share in use, by place.", Query(f"max by (target, cache_type) (inference_kv_cache_usage_ratio{{{E}}})", "{{target}} {{cache_type}}", 0, 1), unit="percentunit", top=1, width=8),
            lines("Prefix cache hits", "Share of looked-up prompt tokens that were found.",
                  Query(f"sum by (target, cache_type) (rate(inference_prefix_cache_hits_total{{{E}}}[$__rate_interval])) / sum by (target, cache_type) (rate(inference_prefix_cache_queries_total{{{E}}}[$__rate_interval]))",
                        "{{target}} {{cache_type}}", 0, 1), unit="percentunit", top=1, width=8),
            lines("Preemptions", "Requests per second that were put back for want of KV cache.", Query(f"sum by (target) (rate(inference_scheduler_preemptions_total{{{E}}}[$__rate_interval]))", "{{target}}", 0, 100),
                  unit="reqps", width=8),
            lines("Drafted tokens accepted", "Share, of engines that decode speculatively.",
                  Query(f"sum by (target) (rate(inference_spec_decode_accepted_tokens_total{{{E}}}[$__rate_interval])) / sum by (target) (rate(inference_spec_decode_draft_tokens_total{{{E}}}[$__rate_interval]))",
                        "{{target}}", 0, 1), unit="percentunit", top=1, width=8),
            lines("KV moved on its node", "Bytes per second between tiers and workers, by cache and direction.",
                  Query('sum by (target, inference_direction) (rate(inference_kv_transfer_bytes_total{instance=~"$node"}[$__rate_interval]))', "{{target}} {{inference_direction}}", 0, 1e12), unit="Bps", width=8),
            lines("Held by routers of its node", "Requests that a router or gateway holds before any engine.", Query('sum by (target) (inference_router_queue_depth{instance=~"$node"})', "{{target}}", 0, 1000), width=8),
        )),
        Row("Cost of a token", (
            lines("Energy of a token", "Growth of the energy counters of an engine's GPUs over its tokens, in the last minute.",
                  Query('gpu_efficiency_joules_per_token{instance=~"$node", target="$target"}', "{{target}}", 0.001, 50), unit="joule"),
            lines("Price of a million generated tokens", "Of the price of the engine's GPUs its share for decoding. Absent without a price or the times of prefill and decode.",
                  Query('1e6 * gpu_cost_per_generation_token_USD{instance=~"$node", target="$target"}', "{{target}}", 0, 100), unit="currencyUSD"),
        )),
    ))

TENANT = Variable("tenant", "Tenant", 'label_values(gpu_info{cluster=~"$cluster"}, tenant)')
T = 'cluster=~"$cluster", tenant=~"$tenant"'

JOB = Board(
    "gpulens-job.json", "gpulens-job", "gpulens / Job", "What runs on the GPUs by owner: tenants, pods and Slurm jobs.", "native", (CLUSTER, TENANT),
    answers=("Who has which GPUs, and uses how much of them?", "Which jobs hold GPUs and do nothing?", "How much energy and money did a tenant, pod or job use?"),
    rows=(
        Row("Owners", (
            stat("GPUs", "GPUs of the chosen tenants.", Query(f"count(gpu_info{{{T}}})", low=8, high=10)),
            stat("Utilization", "Mean over these GPUs.", Query(f"avg(gpu_utilization_ratio{{{T}, {BUSY}}})", low=0, high=1), "percentunit"),
            stat("Idle", "GPUs that were used less than the threshold for the hold time.", Query(f"sum(gpu_idle{{{T}}})", high=10), thresholds=(Threshold(1, "orange", "paid for, and not used"),)),
            stat("Power", "Power of these GPUs.", Query(f"sum(gpu_power_draw_watts{{{T}}})", low=20, high=8000), "watt"),
            stat("Price of an hour", "Of these GPUs. Unknown where no price is configured or found.", Query(f"sum(gpu_cost_per_gpu_hour_USD{{{T}}})", low=19, high=25), "currencyUSD"),
            table("GPUs by owner", "One row for each pod or job.",
                  (("tenant", "Tenant"), ("k8s_namespace_name", "Namespace"), ("k8s_pod_name", "Pod"), ("slurm_job_id", "Job"), ("slurm_job_name", "Job name"), ("slurm_job_user", "User")),
                  *(Column(name, Query(f"{how} by (tenant, k8s_namespace_name, k8s_pod_name, slurm_job_id, slurm_job_name, slurm_job_user) ({expr})", low=low, high=high), unit)
                    for name, how, expr, low, high, unit in (
                        ("GPUs", "count", f"gpu_info{{{T}}}", 1, 8, "none"), ("Utilization", "avg", f"gpu_utilization_ratio{{{T}, {BUSY}}}", 0, 1, "percentunit"),
                        ("Memory", "sum", f"gpu_memory_used_bytes{{{T}}}", 0, 7e11, "bytes"), ("Power", "sum", f"gpu_power_draw_watts{{{T}}}", 5, 6000, "watt"),
                        ("Idle", "sum", f"gpu_idle{{{T}}}", 0, 8, "none")))),
        )),
        Row("Use", (
            lines("Utilization by tenant", "Mean over the GPUs of each tenant.", Query(f"avg by (tenant) (gpu_utilization_ratio{{{T}, {BUSY}}})", "{{tenant}}", 0, 1), unit="percentunit", top=1),
            lines("Memory by tenant", "Memory in use as a share of that of its GPUs.",
                  Query(f"sum by (tenant) (gpu_memory_used_bytes{{{T}}}) / sum by (tenant) (gpu_memory_total_bytes{{{T}}})", "{{tenant}}", 0, 1), unit="percentunit", top=1),
            lines("Processes by memory", "The ten processes with most device memory.",
                  Query(f"topk(10, gpu_process_memory_used_bytes{{{T}}})", "{{tenant}} {{process_executable_name}} {{process_pid}}", 1e8, 9e10), unit="bytes"),
            lines("Energy by process", "Power with which each process is charged, of the ten with most.",
                  Query(f"topk(10, rate(gpu_process_energy_joules_total{{{T}}}[$__rate_interval]))", "{{tenant}} {{process_executable_name}} {{process_pid}}", 0, 900), unit="watt"),
        )),
        Row("Energy and money by owner", (
            lines("Power by tenant", "Energy per second in the ledger.", Query(f'sum by (owner) (rate(energy_ledger_owner_joules_total{{{C}, owner_kind="tenant", owner=~"$tenant"}}[$__rate_interval]))', "{{owner}}", 0, 8000),
                  unit="watt", stack=True, width=8),
            lines("Power by pod", "Energy per second in the ledger; \"(none)\" is what no pod held.", Query(f'sum by (owner) (rate(energy_ledger_owner_joules_total{{{C}, owner_kind="pod"}}[$__rate_interval]))', "{{owner}}", 0, 8000),
                  unit="watt", stack=True, width=8),
            lines("Power by job", "Energy per second in the ledger; \"(none)\" is what no job held.", Query(f'sum by (owner) (rate(energy_ledger_owner_joules_total{{{C}, owner_kind="job"}}[$__rate_interval]))', "{{owner}}", 0, 8000),
                  unit="watt", stack=True, width=8),
            bars("Money by tenant", "In the range of time, of the GPUs that each tenant held. Absent without a price.",
                 Query(f'sum by (owner) (increase(cost_ledger_owner_usd_total{{{C}, owner_kind="tenant", owner=~"$tenant", cost_basis="allocation"}}[$__range]))', "{{owner}}", 0, 5), "currencyUSD"),
            bars("Energy by tenant", "In the range of time.", Query(f'sum by (owner) (increase(energy_ledger_owner_joules_total{{{C}, owner_kind="tenant", owner=~"$tenant"}}[$__range])) / 3600', "{{owner}}", 0, 500), "watth"),
        )),
    ))

ENERGY = Board(
    "gpulens-energy.json", "gpulens-energy", "gpulens / Energy & cost", "Where joules and money go: the ledger, idle GPUs, tokens.", "native", (CLUSTER, NODE),
    answers=("How much energy is drawn, and what became of it?", "What do idle GPUs cost?", "What does a token cost in joules and dollars?", "Which share of GPU time was useful?"),
    rows=(
        Row("Now", (
            stat("Power", "Power of all GPUs.", Query(f"sum(gpu_power_draw_watts{{{N}}})", low=500, high=8000), "watt"),
            stat("Energy", "In the range of time, from the energy counters.", Query(f"sum(increase(gpu_energy_consumption_joules_total{{{N}}}[$__range])) / 3600", low=10, high=3000), "watth"),
            stat("Price of an hour", "Of all GPUs. Unknown where no price is configured or found.", Query(f"sum(gpu_cost_per_gpu_hour_USD{{{N}}})", low=24, high=26), "currencyUSD"),
            stat("Idle, an hour", "Price of the GPUs that are idle.", Query(f"sum(gpu_cost_idle_rate_USD_per_second{{{N}}}) * 3600", high=25), "currencyUSD",
                 thresholds=(Threshold(1, "orange", "a dollar an hour for nothing"),)),
            stat("CO2", "Grams of CO2 equivalents an hour, with the carbon intensity and PUE that are configured.", Query(f"sum(gpu_energy_co2_rate_grams_per_second{{{N}}}) * 3600", low=50, high=5000), "massg"),
            stat("Not in the ledger", "Sum of the ledger's entries minus the growth of the counters. 0 J is right.", Query(f"max(abs(ledger_residual_joules{{{N}}}))", high=1), "joule",
                 thresholds=(Threshold(1, "red", "the ledger lost energy"),)),
        )),
        Row("Energy", (
            lines("What became of it", "Power by state in the ledger: of active, held and idle GPUs, and what no process is charged with.",
                  Query(f"sum by (state) (rate(energy_ledger_joules_total{{{N}}}[$__rate_interval]))", "{{state}}", 0, 8000), unit="watt", stack=True),
            lines("By tenant", "Power by tenant in the ledger.", Query(f'sum by (owner) (rate(energy_ledger_owner_joules_total{{{N}, owner_kind="tenant"}}[$__rate_interval]))', "{{owner}}", 0, 8000),
                  unit="watt", stack=True),
            lines("By model", "Power of the GPUs of each model that engines serve.", Query(f'sum by (owner) (rate(energy_ledger_owner_joules_total{{{N}, owner_kind="model"}}[$__rate_interval]))', "{{owner}}", 0, 8000),
                  unit="watt", stack=True),
            lines("Without an owner", "Power with which no process is charged.", Query(f"sum by (cluster, instance) (rate(gpu_energy_unattributed_joules_total{{{N}}}[$__rate_interval]))", "{{instance}}", 0, 2000), unit="watt"),
        )),
        Row("Money", (
            lines("By tenant", "Dollars an hour of the GPUs that each tenant held.",
                  Query(f'sum by (owner) (rate(cost_ledger_owner_usd_total{{{N}, owner_kind="tenant", cost_basis="allocation"}}[$__rate_interval])) * 3600', "{{owner}}", 0, 30), unit="currencyUSD", stack=True),
            lines("Idle GPUs", "Dollars an hour of idle GPUs, by tenant; without one, no job holds them.", Query(f"sum by (tenant) (gpu_cost_idle_rate_USD_per_second{{{N}}}) * 3600", "{{tenant}}", 0, 25),
                  unit="currencyUSD", stack=True),
        )),
        Row("Tokens", (
            lines("Energy of a token", "Of the GPUs of each engine, in the last minute.", Query('gpu_efficiency_joules_per_token{instance=~"$node"}', "{{target}}", 0.001, 50), unit="joule", width=8),
            lines("A million generated tokens", "Price of the engine's GPUs, its share for decoding.", Query('1e6 * gpu_cost_per_generation_token_USD{instance=~"$node"}', "{{target}}", 0, 100), unit="currencyUSD", width=8),
            lines("A million prompt tokens", "Price of the engine's GPUs, its share for prefill.", Query('1e6 * gpu_cost_per_prompt_token_USD{instance=~"$node"}', "{{target}}", 0, 100), unit="currencyUSD", width=8),
        )),
        Row("Effective compute", (
            lines("Share of GPU time", "Over the last hour of each node: allocated of all time, held of allocated, active of held, useful of active, and effective, their product.", Query(f"effective_compute_ratio{{{N}}}", "{{instance}} {{ratio}}", 0, 1),
                  unit="percentunit", top=1),
            lines("GPU time by what it did", "GPUs, by state and cause.", Query(f"sum by (state, cause) (rate(effective_compute_seconds_total{{{N}}}[$__rate_interval]))", "{{state}} {{cause}}", 0, 20), unit="none", stack=True),
        )),
    ))

PROGRAM = Variable("service", "Program", 'label_values(training_steps_total{cluster=~"$cluster"}, service_name)')
P = 'cluster=~"$cluster", service_name=~"$service"'

TRAINING = Board(
    "gpulens-training.json", "gpulens-training", "gpulens / Training", "Training jobs that measure themselves with the SDK (docs/sdk.md).", "native", (CLUSTER, PROGRAM),
    answers=("Does the job learn, and how fast?", "How much of the GPUs' peak does it use?", "Which rank do the others wait for?", "How much time goes to data and checkpoints?"),
    rows=(
        Row("Speed", (
            stat("MFU", "Model FLOPs utilisation of the last step, of the slowest rank.", Query(f"min(training_mfu_ratio{{{P}}})", low=0.1, high=1), "percentunit"),
            stat("Step", "Time of the last step, of the slowest rank.", Query(f"max(training_step_time_seconds{{{P}}})", low=0.5, high=2), "s"),
            stat("Tokens", "Tokens per second of all ranks.", Query(f"sum(max by (cluster, service_name) (rate(training_tokens_total{{{P}}}[$__rate_interval])))", low=1000, high=10000), "cps"),
            stat("Steps", "Steps in the range of time.", Query(f"max(increase(training_steps_total{{{P}}}[$__range]))", low=30, high=200)),
            stat("Loss", "Loss of the last step.", Query(f"max(training_loss_ratio{{{P}}})", low=2.5, high=2.5)),
            stat("Not finite", "Steps in the range of time whose loss was NaN or infinite.", Query(f"max(increase(training_loss_nonfinite_total{{{P}}}[$__range]))", high=0), thresholds=ANY),
            lines("FLOPs utilisation", "Model (MFU) and hardware (HFU, with what was computed twice), by rank.", Query(f"training_mfu_ratio{{{P}}}", "MFU {{service_name}} {{rank}}", 0.1, 1),
                  Query(f"training_hfu_ratio{{{P}}}", "HFU {{service_name}} {{rank}}", 0.1, 1), unit="percentunit", top=1),
            lines("Model FLOPs", "FLOPs a second of the whole job, 10^12.", Query(f"max by (service_name) (training_tflops_TFLOPS{{{P}}})", "{{service_name}}", 1000, 3000), unit="none"),
            lines("Time of a step", "Over the steps of the interval.", *quantiles("training_step_duration_seconds", P, low=0.1, high=10), unit="s"),
            lines("Tokens", "Per second, of the whole job.", Query(f"max by (service_name) (rate(training_tokens_total{{{P}}}[$__rate_interval]))", "{{service_name}}", 0, 10000), unit="cps"),
        )),
        Row("Learning", (
            lines("Loss", "Loss of the last step, by rank.", Query(f"training_loss_ratio{{{P}}}", "{{service_name}} {{rank}}", 2.5, 2.5), unit="none", width=8, signed=True),
            lines("Gradient", "L2 norm before clipping, by rank.", Query(f"training_gradient_norm_ratio{{{P}}}", "{{service_name}} {{rank}}", 0.5, 0.5), unit="none", width=8),
            lines("Gradients clipped", "Share of the steps whose gradient was clipped.", Query(f"training_gradient_clip_rate_ratio{{{P}}}", "{{service_name}} {{rank}}", 0.5, 0.5), unit="percentunit", top=1, width=8),
        )),
        Row("Waiting", (
            lines("Waits for data", "Share of time spent waiting for batches, by rank.", Query(f"rate(training_dataloader_wait_time_seconds_total{{{P}}}[$__rate_interval])", "{{service_name}} {{rank}}", 0, 0.5),
                  unit="percentunit", width=8, thresholds=(Threshold(0.1, "orange", "the data loader slows the job down"),)),
            lines("Checkpoints", "Time of the last one, saved and restored.", Query(f"training_checkpoint_save_duration_seconds{{{P}}}", "save {{service_name}} {{rank}}", 0.5, 0.5),
                  Query(f"training_checkpoint_restore_duration_seconds{{{P}}}", "restore {{service_name}} {{rank}}", 0.3, 0.3), unit="s", width=8),
            lines("Busy time by rank", "By the median of all ranks: the others wait for the highest one.", Query(f"training_step_busy_ratio{{{P}}}", "{{service_name}} {{rank}}", 0.5, 2),
                  unit="none", width=8, thresholds=(Threshold(1.2, "orange", "a straggler"),)),
        )),
    ))

AGENT = Board(
    "gpulens-agent.json", "gpulens-agent", "gpulens / Agent", "What gpulens knows of itself: can its numbers be believed, do they arrive, what does it cost?", "native", (CLUSTER, NODE),
    answers=("Is the agent up, and does it read everything?", "Are values stale or rejected, and why?", "Do the sinks deliver, does the log on disk grow?", "What does the agent cost?"),
    rows=(
        Row("Now", (
            stat("Agents", "Agents that answer.", Query(f"count(gpulens_build_info{{{N}}})", low=2, high=2)),
            stat("Versions", "Different versions; more than one during an upgrade.", Query(f"count(count by (version) (gpulens_build_info{{{N}}}))", low=1, high=1), thresholds=(Threshold(2, "orange", "agents of several versions"),)),
            stat("Readers down", "Reader processes that do not answer.", Query(f"count(gpulens_reader_up{{{N}}}) - sum(gpulens_reader_up{{{N}}})", high=0), thresholds=ANY),
            stat("Reloads refused", "Agents whose last reload was refused.", Query(f"count(gpulens_config_last_reload_success{{{N}}}) - sum(gpulens_config_last_reload_success{{{N}}})", high=0), thresholds=ANY),
            stat("Sinks down", "Sinks whose last delivery failed.", Query(f"count(gpulens_sink_up{{{N}}}) - sum(gpulens_sink_up{{{N}}})", high=0), thresholds=ANY),
            stat("CPU", "CPU of all processes of an agent, as a share of one core; of the most expensive.", Query(f"max(gpulens_overhead_cpu_ratio{{{N}}})", high=0.5), "percentunit"),
        )),
        Row("Reading", (
            table("Agents", "Each agent with its version.", (("cluster", "Cluster"), ("instance", "Node"), ("version", "Version"), ("revision", "Revision")),
                  Column("Up since", Query(f"max by (cluster, instance, version, revision) (gpulens_build_info{{{N}}} * on (cluster, job, instance) group_left () process_start_time_seconds{{{N}}} * 1000)", low=1e12, high=4e12), "dateTimeFromNow"),
                  links=(ROW_TO_NODE,)),
            lines("Collectors", "1 while the last run succeeded. What is not on the machine is down, too: gpulens doctor says why.", Query(f"min by (collector) (gpulens_collector_up{{{N}}})", "{{collector}}", 0, 1), unit="none", width=8, top=1),
            lines("Age of values", "Age of the oldest value that a collector has on the page.", Query(f"max by (collector) (gpulens_sample_age_seconds{{{N}}})", "{{collector}}", 0, 120), unit="s", width=8),
            lines("Readings rejected", "Per second, by reason.", Query(f'sum by (reason) (rate(gpulens_samples_total{{{N}, result="rejected"}}[$__rate_interval]))', "{{reason}}", 0, 1000), unit="none", width=8),
            lines("Pages of targets", "1 while the page of a target is read.", Query(f"min by (target) (gpulens_scrape_up{{{N}}})", "{{target}}", 0, 1), unit="none", width=8, top=1, links=(TO_ENGINE,)),
            lines("Failed scrapes", "Of targets, per second, by reason.", Query(f"sum by (reason) (rate(gpulens_scrape_errors_total{{{N}}}[$__rate_interval]))", "{{reason}}", 0, 1), unit="none", width=8),
            lines("Hung calls", "Calls of vendor libraries past their deadline.", Query(f"sum by (cluster, instance, reader) (gpulens_reader_calls_hung{{{N}}})", "{{instance}} {{reader}}", 0, 0), unit="none", width=8, thresholds=ANY),
        )),
        Row("Series", (
            lines("Series", "Series of each collector.", Query(f"sum by (collector) (gpulens_series{{{N}}})", "{{collector}}", 0, 50000), unit="none", stack=True),
            lines("Series refused", "Per second, by reason.", Query(f"sum by (collector, reason) (rate(gpulens_series_refused_total{{{N}}}[$__rate_interval]))", "{{collector}} {{reason}}", 0, 1), unit="none"),
        )),
        Row("Delivery", (
            lines("Points delivered", "Per second, acknowledged by the receiver.", Query(f"sum by (sink, signal) (rate(gpulens_sink_delivered_total{{{N}}}[$__rate_interval]))", "{{sink}} {{signal}}", 0, 1e6), unit="none", width=8),
            lines("Dropped", "Snapshots or batches per second, by sink and reason.", Query(f"sum by (sink, reason) (rate(gpulens_sink_dropped_total{{{N}}}[$__rate_interval]))", "{{sink}} {{reason}}", 0, 1), unit="none", width=8),
            lines("Requests", "Per second, by answer.", Query(f"sum by (sink, code) (rate(gpulens_sink_requests_total{{{N}}}[$__rate_interval]))", "{{sink}} {{code}}", 0, 10), unit="reqps", width=8),
            lines("Log on disk", "Bytes that wait for a sink.", Query(f"sum by (cluster, instance, sink) (gpulens_sink_disk_queue_size_bytes{{{N}}})", "{{instance}} {{sink}}", 0, 1e8), unit="bytes", width=8),
            lines("Age of the log", "Age of the oldest request on disk.", Query(f"max by (cluster, instance, sink) (gpulens_sink_disk_queue_oldest_age_seconds{{{N}}})", "{{instance}} {{sink}}", 0, 60), unit="s", width=8,
                  thresholds=(Threshold(300, "orange", "alert GpulensLogGrowing, if it grows"),)),
            lines("Events", "Per interval, by name.", Query(f"sum by (event) (increase(gpulens_events_total{{{N}}}[$__rate_interval]))", "{{event}}", 0, 1000), unit="none", width=8),
        )),
        Row("Cost", (
            lines("CPU", "All processes of the agent, as a share of one core.", Query(f"gpulens_overhead_cpu_ratio{{{N}}}", "{{instance}}", 0, 1), unit="percentunit", width=8),
            lines("Memory", "Resident memory of the agent.", Query(f"process_resident_memory_bytes{{{N}}}", "{{instance}}", 1e6, 2e9), unit="bytes", width=8),
            lines("Messages", "Warnings and errors in the log, per interval.", Query(f'sum by (cluster, instance, level) (increase(gpulens_log_messages_total{{{N}, level=~"warn|error"}}[$__rate_interval]))', "{{instance}} {{level}}", 0, 100), unit="none", width=8),
        )),
    ))

BOARDS = (FLEET, NODE_BOARD, GPU_BOARD, ENGINE, JOB, ENERGY, TRAINING, inside.BOARD, AGENT, proxy.BOARD)
