"""
Fit on a Dask cluster
=====================

A folder of Parquet files is fitted by two worker processes: bit for bit the model of the same rows in memory. Sums over
records travel, records do not, and noise is drawn once, here. It needs the extra ``dask``.
"""

# %%
# A table, and its schema. Tasks start new processes, which import this file: so files and cluster are made by the main
# program only.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpconvex import PrivateLogisticRegression
from dpconvex.data import ClassTarget, NumericColumn, Schema

N = 40_000
rng = np.random.default_rng(0)
age, dose = rng.uniform(20, 90, N), rng.uniform(0, 10, N)
sick = np.where(rng.random(N) < 1 / (1 + np.exp(-(age - 55) / 10 + dose / 3)), "yes", "no")
whole = pa.table({"age": age, "dose": dose, "sick": sick})
schema = Schema((NumericColumn("age", 20, 90), NumericColumn("dose", 0, 10)), ClassTarget("sick", ("no", "yes")))


def fitted(table):
    """Fit with seeded noise, to compare: NOT PRIVATE."""
    return PrivateLogisticRegression(1.0, schema=schema, random_state=0).fit(table)


# %%
# A Dask frame stands where a table would. Its predictions are a Dask series, computed where the rows are.
def main():
    """Fit in memory and on a cluster, and draw what the cluster predicts."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory() as folder:
        for k in range(4):
            pq.write_table(whole.slice(k * N // 4, N // 4), Path(folder) / f"{k}.parquet")
        local = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        with LocalCluster(**local) as cluster, Client(cluster):
            frame = dask.dataframe.read_parquet(folder)
            model = fitted(frame)
            table = frame.assign(predicted=model.predict(frame)).compute()
    print("the same coefficients:", np.array_equal(model.coef_, fitted(whole).coef_))
    for name, label in (("predicted", "predicted on the cluster"), ("sick", "in the table")):
        plt.plot((table[name] == "yes").groupby(table.age // 10 * 10).mean(), "o-", label=label)
    plt.xlabel("age, from")
    plt.ylabel('share of "yes"')
    plt.legend(frameon=False)
    plt.show()


if __name__ == "__main__":
    main()
