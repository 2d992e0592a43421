"""The tools that show what the compiler did: requests, logs, the debug folder, doctor, the compile profiler."""
