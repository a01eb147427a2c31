"""The dashboard of what happens inside jobs: collectives with the rank that others wait for, phases, launches, data loading, and probes."""
from model import Board, Column, Query, Row, Threshold, Variable, lines, stat, table

CLUSTER = Variable("cluster", "Cluster", "label_values(gpulens_build_info, cluster)")
NODE = Variable("node", "Node", 'label_values(gpulens_build_info{cluster=~"$cluster"}, instance)')
N = 'cluster=~"$cluster", instance=~"$node"'
ANY = (Threshold(1, "red", "at least one"),)
LATE = (Threshold(1, "orange", "alert CollectiveRankLate"),)
WAITS = (Threshold(0.1, "orange", "the GPU has nothing to do meanwhile"),)
WHO = "{{process_executable_name}} {{process_pid}}"
RANK = "{{nccl_communicator_name}} rank {{nccl_rank}}"
TO_NODE = ("Node", "/d/gpulens-node?var-node=${__data.fields.Node}&${datasource:queryparam}&${cluster:queryparam}")


def rate(metric, where=""):
    return f"rate({metric}{{{N}{', ' + where if where else ''}}}[$__rate_interval])"


def quantile(q, metric, by, legend, high):
    return Query(f"histogram_quantile({q}, sum by (le, {by}) ({rate(metric + '_bucket')}))", f"p{q * 100:g} {legend}", 0, high)


BOARD = Board(
    "gpulens-inside.json", "gpulens-inside", "gpulens / Inside jobs",
    "What jobs report of themselves, and what probes see: slow and hung ranks, phases, launches, waits for data (docs/nccl.md, docs/phases.md, docs/cuda.md).", "native",
    (CLUSTER, NODE),
    answers=("Which rank do the others wait for, and does a collective hang?", "What do processes do with their time, and with their energy?", "How long do launches and data loading take?",
             "What do probes cost, and what did they miss?"),
    rows=(
        Row("Now", (
            stat("Hung", "Communicators in which a collective hangs. The event nccl.hang names the rank, its machine and GPU.", Query(f"sum(nccl_communicator_hung{{{N}}})", low=0, high=0), thresholds=ANY),
            stat("Stragglers", "Ranks that are late again and again.", Query(f"sum(nccl_rank_straggler{{{N}}})", low=0, high=4), thresholds=LATE),
            stat("Latest rank", "By how much the latest rank arrives after the median of all.", Query(f"max(nccl_rank_lateness_seconds{{{N}}})", low=0, high=1), "s"),
            stat("Communicators", "That are open.", Query(f"count(count by (nccl_communicator) (nccl_communicator_hung{{{N}}}))", low=1, high=20)),
            stat("Data wait", "Share of their time in which processes wait for data; of the one that waits most.",
                 Query(f'max(sum by (instance, process_pid) ({rate("process_phase_time_seconds_total", "process_phase=" + chr(34) + "data_loading" + chr(34))}))', low=0, high=1.2), "percentunit", thresholds=WAITS),
            stat("Launches", "Calls that launch work on a GPU, per second.", Query(f"sum({rate('cuda_launches_total')})", low=0, high=1e6), "cps"),
        )),
        Row("Collectives", (
            table("Ranks", "The latest ranks: the one that comes last waits least, and all others wait for it.",
                  (("instance", "Node"), ("nccl_communicator_name", "Communicator"), ("nccl_rank", "Rank"), ("nccl_host", "Host")),
                  Column("Late by", Query(f"topk(20, max by (instance, nccl_communicator_name, nccl_rank, nccl_host) (nccl_rank_lateness_seconds{{{N}}}))", low=-1, high=1), "s"),
                  Column("Straggler", Query(f"max by (instance, nccl_communicator_name, nccl_rank, nccl_host) (nccl_rank_straggler{{{N}}})", low=0, high=1), "none", LATE),
                  links=(TO_NODE,)),
            lines("Lateness", "By how much each rank arrives after the median; negative: before it.", Query(f"nccl_rank_lateness_seconds{{{N}}}", RANK, -1, 1), unit="s", width=12, signed=True),
            lines("Lost time", "Share of the time for which all other ranks wait for this one alone.", Query(rate("nccl_rank_lost_time_seconds_total"), RANK, 0, 1.2), unit="percentunit", width=12),
            lines("Duration", "Of an operation on the device, by operation.", quantile(0.5, "nccl_collective_duration_seconds", "nccl_collective_type", "{{nccl_collective_type}}", 10),
                  quantile(0.99, "nccl_collective_duration_seconds", "nccl_collective_type", "{{nccl_collective_type}}", 10), unit="s", width=8),
            lines("Bus bandwidth", "Comparable with the links' own; the mean of the ranks.", Query(f"avg by (nccl_collective_type) (nccl_collective_bus_bandwidth_bytes_per_second{{{N}}})", "{{nccl_collective_type}}", 0, 1e12), unit="Bps", width=8),
            lines("Waiting", "For how long a collective waits while none of its ranks moves, and ranks that have not arrived.",
                  Query(f"max by (nccl_communicator_name) (nccl_communicator_ranks_missing{{{N}}})", "{{nccl_communicator_name}} missing", 0, 64), unit="none", width=8),
        )),
        Row("Phases", (
            lines("Time by phase", "Processes in each phase, as a mean over the interval.", Query(f"sum by (process_phase) ({rate('process_phase_time_seconds_total')})", "{{process_phase}}", 0, 64), unit="none", stack=True, width=12),
            lines("Waits for data", "Share of its time, by process.", Query(f'sum by (instance, process_pid, process_executable_name) ({rate("process_phase_time_seconds_total", "process_phase=" + chr(34) + "data_loading" + chr(34))})', WHO, 0, 1.2),
                  unit="percentunit", width=12, thresholds=WAITS),
            lines("Wait for a batch", "Of the training loop, by where it is measured.", quantile(0.5, "dataloader_wait_duration_seconds", "dataloader_source", "{{dataloader_source}}", 10),
                  quantile(0.99, "dataloader_wait_duration_seconds", "dataloader_source", "{{dataloader_source}}", 10), unit="s", width=12),
            lines("Storage", "Bytes that processes of GPUs made the storage read and write: data sets, and checkpoints.", Query(f"sum by (disk_io_direction) ({rate('process_disk_io_bytes_total')})", "{{disk_io_direction}}", 0, 1e11, absent="the demo's agent may not read /proc/PID/io of programs with more rights than its own"), unit="Bps", width=12),
        )),
        Row("Launches", (
            lines("Launches", "Per second, by type. Kernels inside graphs are not counted.", Query(f"sum by (cuda_launch_type) ({rate('cuda_launches_total')})", "{{cuda_launch_type}}", 0, 1e7), unit="cps", width=12),
            lines("Time of a launch call", "CPU time of the calling thread.", quantile(0.5, "cuda_launch_enqueue_duration_seconds", "cuda_source", "{{cuda_source}}", 1),
                  quantile(0.99, "cuda_launch_enqueue_duration_seconds", "cuda_source", "{{cuda_source}}", 1), unit="s", width=12),
            lines("Queue delay", "From the launch call to the start of the kernel. Injection alone measures it.", quantile(0.5, "cuda_launch_queue_duration_seconds", "instance", "{{instance}}", 10),
                  quantile(0.99, "cuda_launch_queue_duration_seconds", "instance", "{{instance}}", 10), unit="s", width=12),
            lines("Time of a kernel", "On the GPU. Injection alone measures it.", quantile(0.5, "cuda_kernel_duration_seconds", "instance", "{{instance}}", 10),
                  quantile(0.99, "cuda_kernel_duration_seconds", "instance", "{{instance}}", 10), unit="s", width=12),
        )),
    ))
