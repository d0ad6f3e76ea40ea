"""
Fit on a Dask cluster
=====================

A model of a folder of Parquet files, fitted by two worker processes: bit for bit the one of the same rows in memory.
It needs the extra ``dask``.
"""

# %%
# A table in four files, and its schema.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpconvex import ClassTarget, NumericColumn, PrivateLogisticRegression, Schema

N = 20_000
rng = np.random.default_rng(0)
age, dose = rng.uniform(20, 90, N), rng.uniform(0, 10, N)
sick = np.where(rng.random(N) < 1 / (1 + np.exp(-(age - 55) / 10 + dose / 3)), "yes", "no")
whole = pa.table({"age": age, "dose": dose, "sick": sick})
schema = Schema((NumericColumn("age", 20, 90), NumericColumn("dose", 0, 10)), ClassTarget("sick", ("no", "yes")))


def fitted(table):
    """Fit with seeded noise, to compare: NOT PRIVATE."""
    return PrivateLogisticRegression(1.0, schema=schema, random_state=0).fit(table)


# %%
# Tasks start new processes, which import this file: so the cluster is started by the main program only.
if __name__ == "__main__":
    try:
        import dask.dataframe
        from distributed import Client, LocalCluster
    except ImportError:
        print("pip install 'dpconvex[dask]'")
    else:
        folder = Path(tempfile.mkdtemp())
        for k in range(4):
            pq.write_table(whole.slice(k * N // 4, N // 4), folder / f"{k}.parquet")
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
            frame = dask.dataframe.read_parquet(folder)
            model = fitted(frame)
            shares = model.predict(frame).value_counts().compute()
        print("the same model:", np.array_equal(model.coef_, fitted(whole).coef_))

        # %%
        # Predictions are a Dask series, computed where the data are.
        plt.bar(shares.index, shares.to_numpy())
        plt.ylabel("records predicted so")
        plt.show()
