-- sums and counts are exact in every grouping
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), count(*) FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), count(*) FROM lineitem_iceberg GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus;
SELECT o_orderpriority, count(*) AS orders FROM orders GROUP BY o_orderpriority HAVING count(*) > 2900 ORDER BY orders DESC, o_orderpriority;
SELECT count(DISTINCT l_suppkey), count(DISTINCT l_shipmode) FROM lineitem;
SELECT l_shipmode, count(DISTINCT l_suppkey) FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;
SELECT sum(l_linenumber), min(l_linenumber), max(l_linenumber), avg(l_linenumber) FROM lineitem WHERE l_orderkey < 1000;
SELECT sum(l_quantity) FILTER (WHERE l_shipmode = 'AIR'), count(*) FILTER (WHERE l_shipmode = 'RAIL') FROM lineitem;
SELECT extract(year FROM o_orderdate) AS y, count(*) FROM orders GROUP BY extract(year FROM o_orderdate) ORDER BY y;
SELECT CAST(date_trunc('month', o_orderdate) AS DATE) AS m, sum(o_totalprice) FROM orders WHERE o_orderdate >= DATE '1998-01-01' GROUP BY 1 ORDER BY m;
SELECT bool_and(l_quantity > 0), bool_or(l_quantity > 49) FROM lineitem;
SELECT c_mktsegment, min(c_acctbal), max(c_acctbal), sum(c_acctbal) FROM customer GROUP BY c_mktsegment ORDER BY c_mktsegment;
SELECT CASE WHEN p_size < 10 THEN 'small' WHEN p_size < 40 THEN 'middle' ELSE 'large' END AS size, count(*) FROM part GROUP BY 1 ORDER BY size;
SELECT n_regionkey, count(*) FROM nation GROUP BY ROLLUP (n_regionkey) ORDER BY n_regionkey NULLS LAST;
SELECT count(*) FROM (SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey) AS t WHERE q > 200;
SELECT sum(p_size), sum(CAST(p_size AS BIGINT) * p_partkey) FROM part;
SELECT p_brand, count(*) FROM part GROUP BY p_brand ORDER BY count(*) DESC, p_brand LIMIT 4;
SELECT sum(CAST(l_extendedprice AS DOUBLE)) > 0, count(*) FROM lineitem;
