-- both formats hold the same rows
SELECT count(*) FROM lineitem;
SELECT count(*) FROM lineitem_iceberg;
SELECT count(*), count(l_comment), min(l_shipdate), max(l_shipdate), min(l_comment), max(l_comment) FROM lineitem;
SELECT count(*), count(l_comment), min(l_shipdate), max(l_shipdate), min(l_comment), max(l_comment) FROM lineitem_iceberg;
-- Q6 over both
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;
SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem_iceberg WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;
SELECT * FROM region ORDER BY r_regionkey;
SELECT n_name, n_regionkey FROM nation WHERE n_name LIKE 'I%' ORDER BY n_name;
SELECT n_name FROM nation WHERE n_name NOT LIKE '%A%' ORDER BY n_name;
SELECT n_name FROM nation WHERE n_nationkey IN (3, 7, 99) OR n_name = 'PERU' ORDER BY n_name;
SELECT count(*) FROM orders WHERE o_orderdate BETWEEN DATE '1995-03-01' AND DATE '1995-03-31';
SELECT count(*) FROM orders WHERE NOT (o_totalprice > 1000.00 OR o_orderpriority = '1-URGENT');
SELECT count(*) FROM lineitem WHERE l_shipdate > l_commitdate AND l_commitdate < l_receiptdate;
SELECT count(*) FROM lineitem WHERE l_orderkey < 0;
SELECT sum(l_quantity) FROM lineitem WHERE l_orderkey < 0;
SELECT o_orderkey, o_totalprice FROM orders ORDER BY o_totalprice DESC, o_orderkey LIMIT 5;
SELECT o_orderkey FROM orders ORDER BY o_orderkey LIMIT 3 OFFSET 100;
SELECT l_orderkey, l_linenumber, l_quantity, l_tax FROM lineitem WHERE l_orderkey = 4 OR l_orderkey = 5 ORDER BY l_orderkey, l_linenumber;
SELECT DISTINCT l_returnflag, l_linestatus FROM lineitem;
SELECT count(*) FROM lineitem WHERE l_quantity IS NULL;
SELECT count(*) FROM lineitem WHERE l_quantity IS NOT NULL AND l_discount <> 0.00;
