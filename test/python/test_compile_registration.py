"""The back end is found by name, and costs nothing until something is compiled."""

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_neither_dynamo_nor_the_compiler():
    run("""
        import sys, tilewright
        tilewright.CompileError, tilewright.freeze, tilewright.compile_stats
        loaded = [m for m in ("torch._dynamo", "sympy", "functorch", "torch._inductor") if m in sys.modules]
        assert not loaded, loaded
        maps = open("/proc/self/maps").read()
        assert "libtilewright_compiler" not in maps
    """)


def test_backend_is_listed_and_found_by_name_whichever_is_imported_first():
    for first, second in (("torch", "tilewright"), ("tilewright", "torch")):
        run(f"""
            import {first}
            import {second}
            import torch
            from torch._dynamo.backends.registry import list_backends, lookup_backend
            assert "tilewright" in list_backends()
            assert lookup_backend("tilewright").__module__ == "tilewright.dynamo"
        """)


def test_backend_registers_where_dynamo_is_loaded_already():
    run("""
        import torch, torch._dynamo
        import tilewright
        from torch._dynamo.backends.registry import lookup_backend
        assert lookup_backend("tilewright").__module__ == "tilewright.dynamo"
    """)


def test_dynamo_knows_the_device():
    run("""
        import torch, tilewright
        from torch._dynamo.device_interface import get_interface_for_device
        npu = get_interface_for_device("npu")
        assert npu is get_interface_for_device(torch.device("npu", 0)) and npu is get_interface_for_device("npu:0")
        assert npu.is_available() and npu.device_count() == 1 and npu.current_device() == 0
        assert npu.current_stream() == torch.npu.current_stream()
        stream = npu.Stream()
        event = npu.Event(enable_timing=True)
        with npu.stream(stream):
            assert npu.current_stream() == stream and npu.get_raw_stream(0) == stream.stream_id
            event.record()
        event.synchronize()
        npu.synchronize()
        assert npu.exchange_device(0) == 0 and npu.maybe_exchange_device(-1) == -1
        assert npu.memory_allocated() == torch.npu.memory_allocated()
        assert not npu.is_triton_capable() and npu.is_bf16_supported()
    """)
