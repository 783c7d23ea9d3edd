"""The messages of the API: `ptod.v1.run_pb2.Run` and so on. Made from the files in proto/pto/v1."""
