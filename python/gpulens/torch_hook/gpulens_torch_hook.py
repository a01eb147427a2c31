"""Reports what a PyTorch job does to gpulens's agent, without a change of the job.

Once the job imports the parts of PyTorch that are named in _PATCHES, their functions are replaced by ones that report around the
call: waits for batches of a DataLoader, steps of an optimizer, checkpoints, and collectives that are called from Python. What is
reported goes into memory that the agent reads (libgpulens-job.so); nothing is sent, waited for, or printed. A function that is
replaced does the same as before. The first error of the hook itself turns the hook off and is reported to the agent; it never
reaches the job. GPULENS_PROBES=off leaves PyTorch as it is.

Any Python from 3.7 on; PyTorch 1.10 to 2.x. docs/training-inside.md.
"""
import functools
import os
import sys

PHASE_DATA_LOADING, PHASE_COLLECTIVE, PHASE_OPTIMIZER_STEP, PHASE_CHECKPOINT = 1, 3, 4, 5
(ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, REDUCE, ALL_TO_ALL, GATHER, SCATTER, SEND, RECEIVE) = range(1, 11)
BARRIER = 12
SWITCH_FILES = ("/run/gpulens/probes.off", "/etc/gpulens/probes.off")

_library = None  # of ctypes, once loaded
_off = False
_trouble = ""


def library():
    """Returns libgpulens-job.so as the hook uses it; None where the hook is not active. Used by gpulens.job, so that a process
    has one page."""
    return None if _off else _library


def _load():
    global _library
    import ctypes

    path = os.environ.get("GPULENS_JOB_LIBRARY")
    if not path:
        name = "libgpulens-job.so"
        here = os.path.dirname(os.path.abspath(__file__))
        # Of a wheel: gpulens/torch_hook and gpulens/lib. Of other packages: share/gpulens/torch and lib/gpulens.
        places = (os.path.join(here, "..", "lib", name), os.path.join(here, "..", "..", "..", "lib", "gpulens", name))
        path = next((place for place in places if os.path.exists(place)), name)  # else by the search of the dynamic linker
    # Where the agent's socket is not visible, as in a container, it finds the page as a file. Not in os.environ, which is the job's.
    if not os.environ.get("GPULENS_JOB_FOLDER"):
        os.putenv("GPULENS_JOB_FOLDER", "/dev/shm")
    # PyDLL: the calls take nanoseconds, and giving up the interpreter's lock around them could take milliseconds.
    found = ctypes.PyDLL(path)

    class Wait(ctypes.Structure):
        _fields_ = [("state", ctypes.c_uint64 * 4)]

    class Call(ctypes.Structure):
        _fields_ = [("state", ctypes.c_uint64 * 8)]

    u64, integer = ctypes.c_uint64, ctypes.c_int
    for name, result, arguments in (
        ("phase_begin", u64, [integer]),
        ("phase_end", None, [u64]),
        ("data_wait_begin", None, [ctypes.POINTER(Wait)]),
        ("data_wait_end", None, [ctypes.POINTER(Wait), integer]),
        ("communicator_open", u64, [u64, integer, integer, ctypes.c_char_p]),
        ("communicator_close", None, [u64]),
        ("collective_begin", None, [ctypes.POINTER(Call), u64, integer, u64, integer, integer]),
        ("collective_end", None, [ctypes.POINTER(Call), integer]),
        ("job_library", None, [ctypes.c_char_p]),
        ("job_trouble", None, [ctypes.c_char_p]),
        ("job_status", integer, []),
    ):
        function = getattr(found, "gpulens_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(found, name, function)
    found.Wait, found.Call, found.byref = Wait, Call, ctypes.byref
    _library = found


def _give_up(where, error):
    """Turns the hook off for the rest of the process."""
    global _off, _trouble
    _off = True
    try:
        _trouble = "torch hook is off: %s: %s: %s" % (where, type(error).__name__, error)
        if _library is not None:
            _library.job_trouble(_trouble.encode("ascii", "replace")[:120])
    except Exception:
        pass


def _is_compiling():
    """Whether torch.compile traces the caller, which then must see the original function alone."""
    return False


# ---- data loading, optimizers, checkpoints


def _in_phase(original, phase):
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        if _is_compiling() or _off:
            return original(*args, **kwargs)
        token = _library.phase_begin(phase)
        try:
            return original(*args, **kwargs)
        finally:
            _library.phase_end(token)

    wrapper._gpulens = True
    return wrapper


def _patch_dataloader(module):
    iterator = module._BaseDataLoaderIter
    original = iterator.__next__

    @functools.wraps(original)
    def __next__(self):
        if _off:
            return original(self)
        wait, got = _library.Wait(), 0
        reference = _library.byref(wait)
        _library.data_wait_begin(reference)
        try:
            batch = original(self)
            got = 1
            return batch
        finally:
            _library.data_wait_end(reference, got)

    iterator.__next__ = __next__
    # Starting the workers delays the job, too, but is no wait for a batch.
    module.DataLoader.__iter__ = _in_phase(module.DataLoader.__iter__, PHASE_DATA_LOADING)


def _patch_optimizer(module):
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        try:
            kind = type(self)
            step = kind.step
            if not _off and not getattr(step, "_gpulens", False):
                kind.step = _in_phase(step, PHASE_OPTIMIZER_STEP)
        except Exception as error:
            _give_up("Optimizer.step", error)

    module.Optimizer.__init__ = __init__


def _patch_names(phase, *names):
    def patch(module):
        for name in names:
            original = getattr(module, name, None)
            if callable(original):
                setattr(module, name, _in_phase(original, phase))

    return patch


# ---- collectives

# Function of torch.distributed: what it is, the argument with the message of this rank, by what its size is multiplied
# ("ranks" as NCCL counts it for the whole message), and the argument with the root or the other rank.
_COLLECTIVES = {
    "all_reduce": (ALL_REDUCE, "tensor", False, None),
    "all_reduce_coalesced": (ALL_REDUCE, "tensors", False, None),
    "broadcast": (BROADCAST, "tensor", False, "src"),
    "reduce": (REDUCE, "tensor", False, "dst"),
    "all_gather": (ALL_GATHER, "tensor", True, None),
    "all_gather_coalesced": (ALL_GATHER, "input_tensor_list", True, None),
    "all_gather_into_tensor": (ALL_GATHER, "input_tensor", True, None),
    "_all_gather_base": (ALL_GATHER, "input_tensor", True, None),
    "reduce_scatter": (REDUCE_SCATTER, "output", True, None),
    "reduce_scatter_tensor": (REDUCE_SCATTER, "output", True, None),
    "_reduce_scatter_base": (REDUCE_SCATTER, "output", True, None),
    "all_to_all": (ALL_TO_ALL, "input_tensor_list", False, None),
    "all_to_all_single": (ALL_TO_ALL, "input", False, None),
    "gather": (GATHER, "tensor", True, "dst"),
    "scatter": (SCATTER, "tensor", True, "src"),
    "barrier": (BARRIER, None, False, None),
    "monitored_barrier": (BARRIER, None, False, None),
    "send": (SEND, "tensor", False, "dst"),
    "recv": (RECEIVE, "tensor", False, "src"),
}

# Equal on all ranks of a job, and another job's differ in one of them.
_JOB_VARIABLES = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID"
)


def _hash_of(text):
    """64-bit FNV-1a, never 0."""
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogateescape"):
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value or 1


def _bytes_of(message):
    if message is None:
        return 0
    if isinstance(message, (list, tuple)):
        return sum(_bytes_of(one) for one in message)
    return message.numel() * message.element_size()


class _Groups:
    """Communicators of process groups. A group whose backend does not wait on the host (NCCL) has none: NCCL's profiler plugin
    reports its true times."""

    def __init__(self, c10d):
        self._c10d = c10d
        self._known = {}  # id of the group: (handle, ranks, group's weak reference); handle None: not recorded
        self._initialized = 0
        self._init_method = ""

    def initializing(self, init_method):
        self._initialized += 1
        self._init_method = str(init_method or "env://")

    def of(self, group):
        """Returns (handle or None, number of ranks, group)."""
        c10d = self._c10d
        member = getattr(c10d, "GroupMember", None)
        if group is None or group is getattr(member, "WORLD", None):
            group = c10d._get_default_group()
        known = self._known.get(id(group))
        if known is None:
            known = self._add(group)
        return known[0], known[1], group

    def _add(self, group):
        c10d = self._c10d
        rank, ranks = c10d.get_rank(group), c10d.get_world_size(group)
        handle = None
        if rank >= 0 and self._waits_on_host(group):
            world = getattr(c10d, "_world", None)
            names = getattr(world, "pg_names", None) or getattr(c10d, "_pg_names", {})
            members = getattr(world, "pg_group_ranks", None) or getattr(c10d, "_pg_group_ranks", {})
            name = str(names.get(group, ""))
            parts = [os.environ.get(variable, "") for variable in _JOB_VARIABLES]
            parts += [self._init_method, str(self._initialized), name, ",".join(map(str, sorted(members.get(group, {}))))]
            shown = "world" if group is c10d._get_default_group() else str(getattr(group, "group_desc", "") or name)
            handle = _library.communicator_open(_hash_of("|".join(parts)), rank, ranks, shown.encode("ascii", "replace")[:63])
        key = id(group)
        try:
            import weakref

            reference = weakref.ref(group, lambda _: self._forget(key))
        except TypeError:  # kept until it is destroyed
            reference = group
        self._known[key] = (handle, ranks, reference)
        return self._known[key]

    def _waits_on_host(self, group):
        backend = str(self._c10d.get_backend(group)).lower()
        if "nccl" in backend or "rccl" in backend or "hccl" in backend or "xccl" in backend:
            return False
        if "undefined" in backend or backend in ("", "none"):  # gloo for the CPU, NCCL for GPUs
            config = str(getattr(self._c10d, "get_backend_config", lambda _: "nccl")(group)).lower()
            return "nccl" not in config
        return True

    def _forget(self, key):
        known = self._known.pop(key, None)
        if known is not None and known[0]:
            _library.communicator_close(known[0])

    def keys_of(self, group):
        """What to forget when this group is destroyed: with that of the world, all."""
        world = getattr(getattr(self._c10d, "GroupMember", None), "WORLD", None)
        return list(self._known) if group is None or group is world else [id(group)]

    def forget(self, keys):
        for key in keys:
            self._forget(key)


class _Pending:
    """Calls with async_op=True, by the identity of their Work, until they are waited for or dropped."""

    def __init__(self):
        self._calls = {}

    def add(self, work, call):
        import weakref

        key = id(work)
        self._calls[key] = (call, weakref.ref(work, lambda _: self._dropped(key)))

    def take(self, work):
        entry = self._calls.pop(id(work), None)
        return None if entry is None else entry[0]

    def __bool__(self):
        return bool(self._calls)

    def _dropped(self, key):
        entry = self._calls.pop(key, None)
        if entry is not None:
            _library.collective_end(_library.byref(entry[0]), 0)


def _argument_reader(original, names):
    """Returns a function of (args, kwargs) that yields the values of these arguments, None where one is missing."""
    import inspect

    order = list(inspect.signature(original).parameters)
    places = [(name, order.index(name) if name in order else -1) for name in names]

    def read(args, kwargs):
        return [kwargs[name] if name in kwargs else args[at] if 0 <= at < len(args) else None for name, at in places]

    return read


def _collective(c10d, groups, pending, local, name, original):
    function, message, times_ranks, peer = _COLLECTIVES[name]
    read = _argument_reader(original, ("group", "async_op", message or "", peer or ""))

    def begin(args, kwargs):
        group, asynchronous, data, root = read(args, kwargs)
        handle, ranks, group = groups.of(group)
        if not handle:
            return None
        size = _bytes_of(data) * (ranks if times_ranks else 1)
        if root is None:
            root = -1
        elif group is not c10d._get_default_group():
            root = c10d.get_group_rank(group, root) if hasattr(c10d, "get_group_rank") else -1
        call = _library.Call()
        _library.collective_begin(_library.byref(call), handle, function, size, root, 1 if asynchronous else 0)
        return call

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        if _is_compiling() or _off or getattr(local, "inside", False):
            return original(*args, **kwargs)
        try:
            call = begin(args, kwargs)
        except Exception as error:
            result = original(*args, **kwargs)  # refuses a wrong argument in its own words; if it does not, the error is ours
            _give_up(name, error)
            return result
        if call is None:
            return original(*args, **kwargs)
        local.inside = True
        measured = 0
        work = None
        try:
            work = original(*args, **kwargs)
            measured = 1
        finally:
            local.inside = False
            if measured and work is not None and hasattr(work, "is_completed"):
                try:
                    pending.add(work, call)
                except Exception:
                    _library.collective_end(_library.byref(call), 0)
            else:
                _library.collective_end(_library.byref(call), measured)
        return work

    return wrapper


def _patch_work(c10d, pending):
    work_type = getattr(c10d, "Work", None)
    if work_type is None:
        from torch._C._distributed_c10d import Work as work_type
    original = work_type.wait

    @functools.wraps(original)
    def wait(self, *args, **kwargs):
        call = pending.take(self) if pending and not _off else None
        if call is None:
            return original(self, *args, **kwargs)
        # Complete before anyone waits: when it ended is not known.
        measured = 0 if self.is_completed() else 1
        token = _library.phase_begin(PHASE_COLLECTIVE)
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            measured = 0
            raise
        finally:
            _library.phase_end(token)
            _library.collective_end(_library.byref(call), measured)

    work_type.wait = wait


def _patch_collectives(c10d):
    import threading

    if not hasattr(c10d, "all_reduce"):
        return  # PyTorch was built without it
    groups, pending, local = _Groups(c10d), _Pending(), threading.local()
    try:
        _patch_work(c10d, pending)
    except (TypeError, AttributeError, ImportError):
        pass  # calls with async_op=True are counted and their end is unknown
    for name in _COLLECTIVES:
        original = getattr(c10d, name, None)
        if callable(original):
            setattr(c10d, name, _collective(c10d, groups, pending, local, name, original))

    init, destroy = c10d.init_process_group, c10d.destroy_process_group
    init_arguments = _argument_reader(init, ("init_method",))

    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        try:
            groups.initializing(init_arguments(args, kwargs)[0])
        except Exception as error:
            _give_up("init_process_group", error)
        return init(*args, **kwargs)

    @functools.wraps(destroy)
    def destroy_process_group(*args, **kwargs):
        keys = []
        try:
            keys = groups.keys_of(args[0] if args else kwargs.get("group"))
        except Exception as error:
            _give_up("destroy_process_group", error)
        result = destroy(*args, **kwargs)
        groups.forget(keys)
        return result

    c10d.init_process_group, c10d.destroy_process_group = init_process_group, destroy_process_group


def _patch_torch(module):
    """At the end of `import torch`."""
    global _is_compiling
    _library.job_library(("torch " + str(getattr(module, "__version__", ""))).encode("ascii", "replace")[:31])
    compiler = getattr(module, "compiler", None)
    _is_compiling = getattr(compiler, "is_compiling", None) or _is_compiling


_PATCHES = {
    "torch": _patch_torch,
    "torch.utils.data.dataloader": _patch_dataloader,
    "torch.optim.optimizer": _patch_optimizer,
    "torch.serialization": _patch_names(PHASE_CHECKPOINT, "save"),
    "torch.distributed.checkpoint.state_dict_saver": _patch_names(PHASE_CHECKPOINT, "save", "save_state_dict"),
    "torch.distributed.distributed_c10d": _patch_collectives,
}


def _apply(name, module):
    if _off:
        return
    try:
        if _library is None:
            _load()
        _PATCHES[name](module)
    except Exception as error:
        _give_up(name, error)


class _Finder:
    """Finds the modules of _PATCHES as the other finders do, and patches each after it was run."""

    def find_spec(self, name, path=None, target=None):
        if name not in _PATCHES or _off:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        try:
            loader = spec.loader
            run = loader.exec_module

            def exec_module(module):
                run(module)
                if getattr(module, "__name__", None) == name:
                    try:
                        del loader.exec_module
                    except AttributeError:
                        pass
                    _apply(name, module)

            loader.exec_module = exec_module
        except Exception as error:
            _give_up(name, error)
        return spec


def install():
    """Waits for the job's `import torch`. Once a process."""
    if os.environ.get("GPULENS_PROBES") == "off" or any(map(os.path.exists, SWITCH_FILES)):
        return
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name in _PATCHES:
        if name in sys.modules:
            _apply(name, sys.modules[name])
